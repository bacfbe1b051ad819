use std::io;
use std::path::PathBuf;

use redis::RedisError;

/// Why the store is not used at present. It is tried again; gateways go on by what they have, and then by their local limits.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operator has to act.
    #[error("cannot read {0}")]
    File(PathBuf, #[source] io::Error),
    /// The operator has to act.
    #[error("cannot use the address or the certificates")]
    Settings(#[source] RedisError),
    /// The server's fault, the network's, or that of the user, the password or the certificates.
    #[error("cannot connect")]
    Connect(#[source] RedisError),
    /// As [`StoreError::Connect`]. Gateways do not wait for such an answer.
    #[error("it takes too long")]
    Slow,
    /// The operator has to act: without its run id a restart would go unnoticed.
    #[error("the server hides its run id, which INFO has to show")]
    NoRunId,
    /// Sentinels will name another one, or the address is that of a replica.
    #[error("the server is no master")]
    NotMaster,
    /// The server's fault or the network's, or the user may not do it.
    #[error("cannot read limits")]
    Load(#[source] RedisError),
    /// As [`StoreError::Load`]; also a master with fewer replicas than it has to have.
    #[error("cannot write limits")]
    Save(#[source] RedisError),
    /// Other control planes changed the same limits at the same time, again and again.
    #[error("other control planes change the same limits without end")]
    Contended,
}

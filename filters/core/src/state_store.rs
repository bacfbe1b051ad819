//! State that outlives a cluster's configurations, kept by the host for the whole process.

use std::sync::Arc;

use crate::bucket::{Rate, TokenBucket};
use crate::limit::InFlight;
use crate::review::{CredentialCaches, Lifetimes, Reviewer, Store};
use crate::upstream_user::HeaderNames;

/// State that outlives a cluster's configurations, kept by the host for the whole process.
pub trait StateStore {
    /// The caches of an earlier configuration of the owner; empty if there was none.
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches>;

    /// The running requests of a flow control schema, by the cluster's name and the schema's.
    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight>;

    /// The token bucket of a flow control schema. The rate is part of what it is found by: another rate is another bucket,
    /// and a full one.
    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket>;
}

/// Remembers nothing from one configuration to the next: for tools and tests. Holds the secret of the caches that it makes.
#[derive(Clone, Copy, Debug)]
pub struct EphemeralState(pub [u8; 32]);

impl StateStore for EphemeralState {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        Arc::new(CredentialCaches::new(&self.0, owner.lifetimes, &Store::default()))
    }

    fn in_flight(&self, _cluster: &str, _schema: &str) -> Arc<InFlight> {
        Arc::default()
    }

    fn token_bucket(&self, _cluster: &str, _schema: &str, rate: Rate) -> Arc<TokenBucket> {
        Arc::new(TokenBucket::new(rate))
    }
}

/// The owner of caches of credentials: another cluster, another client CA, another reviewer or other lifetimes begin with empty
/// ones, an edit of policies keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheOwner {
    pub(crate) identity: String,
    pub(crate) client_ca: Vec<u8>,
    pub(crate) names: HeaderNames,
    /// Another upstream, or another user who asks it, may answer otherwise.
    pub(crate) reviewer: Option<Reviewer>,
    /// For how long answers are believed.
    pub lifetimes: Lifetimes,
}

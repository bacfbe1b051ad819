use std::path::PathBuf;

use clap::Args;
use portcullis_limits::NodeOwners;
use portcullis_limits_store::{AddressError, LimitStore, StoreAddress, StoreFiles};

/// The place in which limits of all gateways are divided.
#[derive(Debug, Args)]
pub(crate) struct LimitsArguments {
    /// Redis or Valkey in which all control planes that name it divide limits of all gateways together: redis://[USER@]HOST[:PORT][/DB],
    /// or redis+sentinel://[USER@]HOST[:PORT],.../SERVICE[/DB]; rediss for TLS. Without it the replica that leads divides them.
    #[arg(long, env = "PORTCULLIS_LIMITS_STORE", value_name = "URL", hide_env_values = true)]
    limits_store: Option<String>,
    /// The password for the store, in a file that is read anew with each connection.
    #[arg(long, value_name = "FILE", requires = "limits_store")]
    limits_store_password_file: Option<PathBuf>,
    /// The sentinels' own password.
    #[arg(long, value_name = "FILE", requires = "limits_store")]
    limits_store_sentinel_password_file: Option<PathBuf>,
    /// The CAs of the store's and the sentinels' certificates, PEM; the machine's without it.
    #[arg(long, value_name = "FILE", requires = "limits_store")]
    limits_store_ca: Option<PathBuf>,
    /// A client certificate for the store and the sentinels, PEM.
    #[arg(long, value_name = "FILE", requires = "limits_store_key")]
    limits_store_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "limits_store_cert")]
    limits_store_key: Option<PathBuf>,
    /// The beginning of all keys in the store. Control planes with another one have other limits.
    #[arg(long, value_name = "PREFIX", default_value = "portcullis", requires = "limits_store")]
    limits_store_prefix: String,
}

impl LimitsArguments {
    /// Starts to use the store, if there is one. The address is not parsed by clap, which would print a password that is in it.
    ///
    /// # Errors
    /// The address is none: the operator's fault.
    pub(crate) fn store(&self, owners: NodeOwners) -> Result<Option<LimitStore>, AddressError> {
        let Some(address) = &self.limits_store else { return Ok(None) };
        let address: StoreAddress = address.parse()?;
        if address.has_user() && self.limits_store_password_file.is_none() {
            return Err(AddressError::NoPassword);
        }
        let files = StoreFiles {
            password: self.limits_store_password_file.clone(),
            sentinel_password: self.limits_store_sentinel_password_file.clone(),
            ca: self.limits_store_ca.clone(),
            certificate: self.limits_store_cert.clone().zip(self.limits_store_key.clone()),
        };
        Ok(Some(LimitStore::start(address, files, self.limits_store_prefix.clone(), owners)))
    }
}

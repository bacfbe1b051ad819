//! One `UpstreamCluster`'s configuration, compiled.

use std::sync::Arc;

use portcullis_filter_config as config;
use portcullis_filter_config::{CONFIG_VERSION, Pool, RequestClass, UpstreamIdentity, destination};

use crate::authority::Authorities;
use crate::policy::Policies;
use crate::x509::{CertificateCache, ClientCa, ClientCaError};

/// Why a configuration is refused. The control plane's fault; Envoy keeps the configuration that it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Written for another version of the filter.
    #[error("configuration version {0} is not supported, this filter reads version {CONFIG_VERSION}")]
    Version(u32),
    /// The client CA bundle.
    #[error(transparent)]
    ClientCa(#[from] ClientCaError),
    /// Without an instance id the gateway would not recognise its own requests.
    #[error("the instance id is not a word")]
    Instance,
}

/// Everything that judging a request for one cluster needs.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) authorities: Authorities,
    pub(crate) client_ca: Option<ClientCa>,
    pub(crate) certificates: Arc<CertificateCache>,
    pub(crate) policies: Policies,
    /// By policy, then by pool and class.
    destinations: Vec<Destinations>,
}

#[derive(Debug)]
struct Destinations([[Box<str>; RequestClass::ALL.len()]; Pool::ALL.len()]);

impl Cluster {
    /// Compiles a configuration. `caches` finds the certificate cache of a cluster by its identity and the digest of its
    /// client CA: an edit of policies keeps what was verified, another CA or another cluster starts with nothing.
    ///
    /// # Errors
    /// [`CompileError`], the control plane's fault.
    pub fn compile(
        config: &config::ClusterConfig,
        caches: impl FnOnce(&str, &[u8]) -> Arc<CertificateCache>,
    ) -> Result<Self, CompileError> {
        if config.version != CONFIG_VERSION {
            return Err(CompileError::Version(config.version));
        }
        // Matched so that a further way of telling the user cannot be forgotten here.
        let UpstreamIdentity::Impersonate = config.upstream_identity;
        let client_ca = config.client_ca.as_deref().map(ClientCa::from_pem).transpose()?;
        let ca_digest: &[u8] = client_ca.as_ref().map_or(&[], |ca| ca.digest());
        let certificates = caches(&config.identity, ca_digest);
        let policies = Policies::new(&config.policies);
        let destinations = policies.groups().map(Destinations::of).collect();
        let authorities = Authorities::new(config.authorities.iter().map(String::as_str));
        Ok(Cluster { authorities, client_ca, certificates, policies, destinations })
    }

    /// The filter state value that opens the route to a policy's server group.
    pub(crate) fn destination(&self, policy: usize, pool: Pool, class: RequestClass) -> Option<&str> {
        let Destinations(table) = self.destinations.get(policy)?;
        let pool = Pool::ALL.iter().position(|candidate| *candidate == pool)?;
        let class = RequestClass::ALL.iter().position(|candidate| *candidate == class)?;
        table.get(pool)?.get(class).map(|destination| &**destination)
    }
}

impl Destinations {
    fn of(group: &str) -> Self {
        Destinations(
            Pool::ALL.map(|pool| RequestClass::ALL.map(|class| destination(group, pool, class).into_boxed_str())),
        )
    }
}

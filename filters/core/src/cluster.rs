//! One `UpstreamCluster`'s configuration, compiled.

use std::sync::Arc;

use portcullis_filter_config as config;
use portcullis_filter_config::{CONFIG_VERSION, Pool, RequestClass, UpstreamIdentity, destination};

use crate::authority::Authorities;
use crate::limit::{InFlight, Place};
use crate::observe::Series;
use crate::policy::Policies;
use crate::review::{CredentialCaches, Lifetimes};
use crate::x509::{ClientCa, ClientCaError};

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
    pub(crate) anonymous: bool,
    pub(crate) reviewer: Option<Reviewer>,
    pub(crate) caches: Arc<CredentialCaches>,
    pub(crate) policies: Policies,
    pub(crate) deny_all_requests: bool,
    /// By policy, then by pool and class.
    destinations: Vec<Destinations>,
    /// By policy.
    limits: Vec<Option<Limit>>,
    series: Arc<Series>,
}

/// The limit that a policy's requests come under.
#[derive(Clone, Debug)]
struct Limit {
    running: Arc<InFlight>,
    max: u32,
}

/// What outlives a cluster's configurations, kept by the host for the whole process.
pub trait Memory {
    /// What an earlier configuration of the owner has learnt of credentials; empty if there was none.
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches>;

    /// The running requests of a flow control schema, by the cluster's name and the schema's.
    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight>;
}

/// Who answers reviews.
#[derive(Debug)]
pub(crate) struct Reviewer {
    /// The Envoy cluster to ask.
    pub(crate) cluster: Arc<str>,
}

/// What caches of credentials belong to: another cluster, another client CA or other lifetimes start with empty ones, an
/// edit of policies keeps what is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheOwner {
    identity: String,
    client_ca: Vec<u8>,
    /// For how long answers are believed.
    pub lifetimes: Lifetimes,
}

#[derive(Debug)]
struct Destinations([[Box<str>; RequestClass::ALL.len()]; Pool::ALL.len()]);

impl Cluster {
    /// Compiles a configuration.
    ///
    /// # Errors
    /// [`CompileError`], the control plane's fault.
    pub fn compile(config: &config::ClusterConfig, memory: &impl Memory) -> Result<Self, CompileError> {
        if config.version != CONFIG_VERSION {
            return Err(CompileError::Version(config.version));
        }
        // Matched so that a further way of telling the user cannot be forgotten here.
        let UpstreamIdentity::Impersonate = config.upstream_identity;
        let client_ca = config.client_ca.as_deref().map(ClientCa::from_pem).transpose()?;
        let caches = memory.caches(CacheOwner {
            identity: config.identity.clone(),
            client_ca: client_ca.as_ref().map_or_else(Vec::new, |ca| ca.digest().to_vec()),
            lifetimes: config.reviews.as_ref().map_or_else(Lifetimes::default, Lifetimes::of),
        });
        let reviewer = config.reviews.as_ref().map(|reviews| Reviewer { cluster: reviews.cluster.as_str().into() });
        let policies = Policies::new(&config.policies);
        let destinations = policies.groups().map(Destinations::of).collect();
        let limits = config.policies.iter().map(|policy| limit_of(policy, config, memory)).collect();
        let series = Arc::new(Series::new(config, memory, &caches));
        let authorities = Authorities::new(config.authorities.iter().map(String::as_str));
        Ok(Cluster {
            authorities,
            client_ca,
            anonymous: config.anonymous,
            reviewer,
            caches,
            policies,
            deny_all_requests: config.deny_all_requests,
            destinations,
            limits,
            series,
        })
    }

    /// What is counted of its requests.
    pub fn series(&self) -> &Arc<Series> {
        &self.series
    }

    /// A place among the running requests of a policy's schema: `Ok(None)` where there is no limit.
    ///
    /// # Errors
    /// [`Full`] where no place is free.
    pub(crate) fn enter(&self, policy: usize) -> Result<Option<Place>, Full> {
        match self.limits.get(policy) {
            Some(Some(limit)) => limit.running.enter(limit.max).map(Some).ok_or(Full),
            _ => Ok(None),
        }
    }

    /// The filter state value that opens the route to a policy's server group.
    pub(crate) fn destination(&self, policy: usize, pool: Pool, class: RequestClass) -> Option<&str> {
        let Destinations(table) = self.destinations.get(policy)?;
        let pool = Pool::ALL.iter().position(|candidate| *candidate == pool)?;
        let class = RequestClass::ALL.iter().position(|candidate| *candidate == class)?;
        table.get(pool)?.get(class).map(|destination| &**destination)
    }
}

/// As many requests run as may.
#[derive(Debug)]
pub(crate) struct Full;

fn limit_of(policy: &config::Policy, config: &config::ClusterConfig, memory: &impl Memory) -> Option<Limit> {
    let name = policy.flow_control_schema.as_ref()?;
    let schema = config.flow_control_schemas.iter().find(|schema| schema.name == *name)?;
    Some(Limit { running: memory.in_flight(&config.name, name), max: schema.max_requests_inflight })
}

impl Destinations {
    fn of(group: &str) -> Self {
        Destinations(
            Pool::ALL.map(|pool| RequestClass::ALL.map(|class| destination(group, pool, class).into_boxed_str())),
        )
    }
}

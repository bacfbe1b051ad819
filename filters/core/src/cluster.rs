//! One `UpstreamCluster`'s configuration, compiled.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config as config;
use portcullis_filter_config::{
    CONFIG_VERSION, CountedRequests, Pool, RequestClass, RequestHeaders, UpstreamIdentity, destination,
};

use crate::access::Access;
pub use crate::compile_error::CompileError;
use crate::denials::Denials;
use crate::fair::{FairQueue, FairSchema};
use crate::flow_limit::{FlowLimit, LimitReached};
use crate::header_scan::{Reserved, can_be_reserved};
use crate::host_names::AllowedHosts;
use crate::limit::InFlightPermit;
use crate::limit_places::limit_places;
use crate::local_token::TokenIssuers;
use crate::observe::ClusterMetrics;
use crate::policy::Policies;
use crate::protected::Protected;
use crate::rebalance::Rebalance;
use crate::review::{CredentialCaches, Lifetimes, Reviewer};
use crate::shadow::Shadow;
use crate::state_store::{CacheOwner, StateStore};
use crate::upstream_user::HeaderNames;
use crate::x509::ClientCa;

/// Everything that judging a request for one cluster needs: its configuration under some host names.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) authorities: AllowedHosts,
    compiled: Arc<CompiledCluster>,
}

/// A cluster's configuration without host names. Listeners and edits that differ in these alone share it.
#[derive(Debug)]
pub struct CompiledCluster {
    pub(crate) client_ca: Option<ClientCa>,
    pub(crate) anonymous: bool,
    pub(crate) audit_attribution: bool,
    pub(crate) reviewer: Option<Reviewer>,
    /// Issuers whose tokens need no review, if there are any.
    pub(crate) token_issuers: Option<Box<TokenIssuers>>,
    /// Period in which a token that they verify is reviewed once, beside its requests.
    pub(crate) check_period: Option<Duration>,
    pub(crate) caches: Arc<CredentialCaches>,
    pub(crate) policies: Policies,
    pub(crate) identity: Identity,
    pub(crate) protected: Option<Protected>,
    pub(crate) deny_all_requests: bool,
    close_connections: bool,
    /// The lists that are asked before policies, if there are any.
    pub(crate) access: Option<Access>,
    /// The policies that deny.
    pub(crate) denials: Denials,
    /// The alternative that only reports, if there is one.
    pub(crate) shadow: Option<Box<Shadow>>,
    /// By policy, then by pool and class.
    destinations: Vec<Destinations>,
    /// The limit of each flow control schema, in the configuration's order. A schema that no policy names at the moment is
    /// among them, so that it keeps its state.
    schemas: Vec<Limit>,
    /// By policy, the index of its schema in `schemas`.
    limits: Vec<Option<usize>>,
    series: Arc<ClusterMetrics>,
    entries: usize,
}

/// The way by which the upstream learns the user of a request.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Header names for users.
    pub(crate) names: HeaderNames,
    /// Set where tokens and impersonation go on, for the upstream to judge.
    pub(crate) client_credential: Option<ClientCredentialMode>,
    /// Prefixes of header names that the upstream believes and no client may send on, but for those that hold everywhere.
    pub(crate) reserved: Box<[Box<[u8]>]>,
}

/// [`UpstreamIdentity::RequestHeader`] and [`UpstreamIdentity::ClientCredential`], compiled.
#[derive(Debug)]
pub(crate) struct ClientCredentialMode {
    /// Policies for clients whose credential was not reviewed.
    pub(crate) unknown: Policies,
    /// Whether users of certificates are forwarded in headers. Otherwise no user is forwarded, and no credential is ignored.
    tells_certificates: bool,
}

impl Identity {
    fn compile(config: &config::ClusterConfig, policies: &[config::Policy]) -> Result<Self, CompileError> {
        let (raw, tells_certificates) = match &config.upstream_identity {
            UpstreamIdentity::Impersonate => {
                return Ok(Identity {
                    names: HeaderNames::impersonate(),
                    client_credential: None,
                    reserved: Box::default(),
                });
            }
            UpstreamIdentity::RequestHeader(names) => (names, true),
            UpstreamIdentity::ClientCredential => (&RequestHeaders::default(), false),
        };
        let names = HeaderNames::from_config(raw);
        for (is_set, field) in
            [(config.client_ca.is_some(), "clientCa"), (config.audit_attribution, "auditAttribution")]
        {
            if is_set && !tells_certificates {
                return Err(CompileError::ClientCredential(field));
            }
        }
        check_header_names(names.all().chain(raw.reserved.iter().map(String::as_str)))?;
        let unknown = Policies::for_unknown(policies);
        let reserved = reserved(raw, &names);
        Ok(Identity { names, client_credential: Some(ClientCredentialMode { unknown, tells_certificates }), reserved })
    }

    /// Whether tokens and impersonation go on, for the upstream to judge.
    pub(crate) fn passes(&self) -> bool {
        self.client_credential.is_some()
    }

    /// Whether no user is forwarded ([`UpstreamIdentity::ClientCredential`]).
    pub(crate) fn is_unchanged(&self) -> bool {
        self.client_credential.as_ref().is_some_and(|client_credential| !client_credential.tells_certificates)
    }
}

/// Checks names of headers that no client may send on, and prefixes of such names.
pub(crate) fn check_header_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), CompileError> {
    let bad = names.find(|name| !can_be_reserved(name));
    bad.map_or(Ok(()), |bad| Err(CompileError::HeaderName(bad.to_owned())))
}

/// As they are written, so that they equal the listener's, and what the configuration forgot.
fn reserved(raw: &RequestHeaders, names: &HeaderNames) -> Box<[Box<[u8]>]> {
    let mut reserved: Vec<Box<[u8]>> = raw.reserved.iter().map(|prefix| prefix.as_bytes().into()).collect();
    for name in names.all().map(str::as_bytes) {
        if !Reserved::new(&reserved, &[]).names(name) {
            reserved.push(name.into());
        }
    }
    reserved.into()
}

/// The limit of a flow control schema.
#[derive(Debug)]
enum Limit {
    Flow(FlowLimit, CountedRequests),
    Fair(FairSchema),
}

#[derive(Debug)]
struct Destinations([[Option<Box<str>>; RequestClass::ALL.len()]; Pool::ALL.len()]);

impl Cluster {
    /// Compiles a configuration.
    ///
    /// # Errors
    /// [`CompileError`], the control plane's fault.
    pub fn compile(config: &config::ClusterConfig, store: &impl StateStore) -> Result<Self, CompileError> {
        let compiled = Arc::new(CompiledCluster::compile(config, store)?);
        Ok(Cluster::named(&config.authorities, compiled))
    }

    /// A compiled configuration under these host names.
    pub(crate) fn named(authorities: &[String], compiled: Arc<CompiledCluster>) -> Self {
        Cluster { authorities: AllowedHosts::new(authorities.iter().map(String::as_str)), compiled }
    }
}

impl Deref for Cluster {
    type Target = CompiledCluster;

    fn deref(&self) -> &CompiledCluster {
        &self.compiled
    }
}

impl CompiledCluster {
    /// Compiles a configuration, whatever its host names.
    pub(crate) fn compile(config: &config::ClusterConfig, store: &impl StateStore) -> Result<Self, CompileError> {
        if config.version != CONFIG_VERSION {
            return Err(CompileError::Version(config.version));
        }
        let written = config.policies.policies();
        let identity = Identity::compile(config, &written)?;
        let client_ca = config.client_ca.as_deref().map(ClientCa::from_pem).transpose()?;
        let reviewer = config.reviews.as_ref().map(|reviews| Reviewer::from_config(reviews, &identity.names));
        let token_issuers = TokenIssuers::for_cluster(config)?.map(Box::new);
        let check_period = config.reviews.as_ref().and_then(|reviews| reviews.revocation_check_seconds);
        let caches = store.caches(CacheOwner {
            identity: cache_identity(config).to_owned(),
            names: identity.names.clone(),
            reviewer: reviewer.clone(),
            client_ca: client_ca.as_ref().map_or_else(Vec::new, |ca| ca.digest().to_vec()),
            lifetimes: config.reviews.as_ref().map_or_else(Lifetimes::default, Lifetimes::from_config),
        });
        // If impersonation goes on, the upstream may take the client for another user.
        let knows_all_users = !identity.passes();
        let denials = Denials::compile(&written, knows_all_users).map_err(CompileError::Denial)?;
        let access = Access::compile(&config.access)?;
        let mut lists = config.access.iter().chain(config.shadow.iter().flat_map(|shadow| &shadow.access));
        if identity.is_unchanged() && lists.any(config::AccessLists::denies_by_user) {
            return Err(CompileError::ClientCredential("an access list that denies by the user"));
        }
        let shadow = Shadow::compile(config, &written, knows_all_users, store)?;
        let policies = Policies::new(&written);
        let pools = Pool::of(&config.upstream_identity);
        let destinations = policies.groups().map(|group| Destinations::for_group(group, pools)).collect();
        let schemas = schemas(config, &config.counted_name(), store)?;
        let names = config.flow_control_schemas.iter().map(|schema| &*schema.name);
        let limits = limit_places(&written, names.chain(config.fair_queues.iter().map(|queue| &*queue.name)));
        let rebalance = rebalance(config, store)?;
        let series = Arc::new(ClusterMetrics::new(config, &written, store, &caches, rebalance));
        Ok(CompiledCluster {
            client_ca,
            anonymous: config.allow_anonymous,
            audit_attribution: config.audit_attribution,
            reviewer,
            token_issuers,
            check_period: check_period.map(|seconds| Duration::from_secs(seconds.max(1))),
            caches,
            policies,
            identity,
            protected: config.protected.as_ref().map(Protected::compile),
            deny_all_requests: config.deny_all_requests,
            close_connections: config.close_connections,
            access,
            denials,
            shadow,
            destinations,
            schemas,
            limits,
            series,
            entries: entries(config, &written),
        })
    }

    /// The entries of the lists of its policies, and of its fair queues as many as take the same memory.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Whether a connection is to take no more requests once one came on it.
    pub fn closes_connections(&self) -> bool {
        self.close_connections
    }

    /// Whether an access list looks at `User-Agent`.
    pub(crate) fn reads_user_agent(&self) -> bool {
        self.access.as_ref().is_some_and(Access::reads_user_agent)
            || self.shadow.as_ref().is_some_and(|shadow| shadow.reads_user_agent())
    }

    /// The metrics of its requests.
    pub fn series(&self) -> &Arc<ClusterMetrics> {
        &self.series
    }

    /// Counts a request under its policy's schema. `Ok(None)` if the request goes on and has no permit to release: there is no
    /// limit, or a token was taken. The last step of a decision, because a token cannot be given back.
    ///
    /// # Errors
    /// [`LimitReached`] if no permit is free or no token is left.
    pub(crate) fn acquire(
        &self,
        policy: usize,
        is_watch: bool,
        uptime: Duration,
    ) -> Result<Option<InFlightPermit>, LimitReached> {
        let Some(Some(schema)) = self.limits.get(policy) else { return Ok(None) };
        match self.schemas.get(*schema) {
            Some(Limit::Flow(limit, counts)) if counts.includes(is_watch) => limit.acquire(uptime),
            Some(Limit::Flow(..) | Limit::Fair(_)) | None => Ok(None),
        }
    }

    /// The fair queue of a policy, if it names one: a request needs a seat of it.
    pub(crate) fn fair_queue(&self, policy: usize) -> Option<&FairSchema> {
        match self.schemas.get((*self.limits.get(policy)?)?)? {
            Limit::Fair(schema) => Some(schema),
            Limit::Flow(..) => None,
        }
    }

    /// All fair queues, in the order of the configuration.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &Arc<FairQueue>> {
        self.schemas.iter().filter_map(|schema| match schema {
            Limit::Fair(schema) => Some(schema.queue()),
            Limit::Flow(..) => None,
        })
    }

    /// The filter state value that opens the route to a policy's server group. `None` for a pool that this identity mode does
    /// not use.
    pub(crate) fn destination(&self, policy: usize, pool: Pool, class: RequestClass) -> Option<&str> {
        let Destinations(table) = self.destinations.get(policy)?;
        let pool = Pool::ALL.iter().position(|candidate| *candidate == pool)?;
        let class = RequestClass::ALL.iter().position(|candidate| *candidate == class)?;
        table.get(pool)?.get(class)?.as_deref()
    }
}

/// Queues that take as much memory as an entry of a policy's lists.
const QUEUES_PER_ENTRY: u32 = 8;

fn entries(config: &config::ClusterConfig, policies: &[config::Policy]) -> usize {
    let queues = config.fair_queues.iter().map(|fair| fair.queues.div_ceil(QUEUES_PER_ENTRY) as usize);
    let lists = |lists: &[config::AccessLists]| -> usize {
        lists.iter().flat_map(config::AccessLists::all).map(config::AccessEntry::entries).sum()
    };
    let of = |policies: &[config::Policy]| -> usize { policies.iter().map(config::Policy::entries).sum() };
    let shadow = config.shadow.iter().map(|shadow| of(&shadow.policies).saturating_add(lists(&shadow.access)));
    queues.chain(shadow).chain([of(policies), lists(&config.access)]).sum()
}

fn rebalance(config: &config::ClusterConfig, store: &impl StateStore) -> Result<Option<Rebalance>, CompileError> {
    let Some(rebalance) = &config.rebalance else { return Ok(None) };
    Rebalance::compile(rebalance, store.load()).map(Some).ok_or(CompileError::Rebalance)
}

/// Two clusters of one Envoy never share caches of credentials, also if their configuration has no identity.
fn cache_identity(config: &config::ClusterConfig) -> &str {
    if config.identity.is_empty() { &config.name } else { &config.identity }
}

/// The limits of flow control, then the fair queues.
fn schemas(config: &config::ClusterConfig, counted: &str, store: &impl StateStore) -> Result<Vec<Limit>, CompileError> {
    if let Some(bad) = config.fair_queues.iter().find(|queue| !queue.is_within_bounds()) {
        return Err(CompileError::FairQueue(bad.name.clone()));
    }
    let limit = |schema: &config::FlowControlSchema| Limit::Flow(store.flow_limit(counted, schema), schema.counts);
    let fair = |queue: &config::FairQueueConfig| Limit::Fair(FairSchema::new(queue, store.fair_queue(counted, queue)));
    let limits = config.flow_control_schemas.iter().map(limit);
    Ok(limits.chain(config.fair_queues.iter().map(fair)).collect())
}

impl Destinations {
    /// Pools that the identity mode does not use have no destination, so that a bug cannot route a request to a pool with the
    /// gateway's credential.
    fn for_group(group: &str, pools: &[Pool]) -> Self {
        let word = |pool, class| pools.contains(&pool).then(|| destination(group, pool, class).into_boxed_str());
        Destinations(Pool::ALL.map(|pool| RequestClass::ALL.map(|class| word(pool, class))))
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;

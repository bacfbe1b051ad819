use super::AckStates;
use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::config::endpoint::v3::Endpoint;
use envoy_types::pb::envoy::service::health::v3::EndpointHealth;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

use crate::node::View;
use crate::node_name::node_owner;

/// Endpoints of one cluster as one node sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// How many get requests.
    pub healthy: u32,
    /// How many there are.
    pub total: u32,
    /// Those that are not healthy, as far as they are named.
    pub unhealthy: Vec<UnhealthyServer>,
}

/// The newest report of every node, by its name, up to a bound. Reports that are older than [`HealthRegistry::MAX_AGE`] do not count.
#[derive(Debug)]
pub struct HealthRegistry {
    reports: Mutex<BTreeMap<String, Report>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Report {
    at: Instant,
    clusters: BTreeMap<String, Endpoints>,
    /// The views about which the node may report; `None` are all.
    views: Option<Vec<View>>,
    answers: Arc<AckStates>,
}

/// Most nodes that are remembered and belong to no instance.
const MAX_NODES: usize = 1_000;
/// The same of those of one instance, and of the nodes of all instances together.
const MAX_NODES_OF_INSTANCE: usize = 100;
const MAX_NODES_OF_INSTANCES: usize = 10_000;

/// Whether there is no room for another node of that name.
fn is_crowded(reports: &BTreeMap<String, Report>, name: &str) -> bool {
    let (owner, owners) = (node_owner(name), || reports.keys().map(|name| node_owner(name)));
    let most = if owner.is_some() { MAX_NODES_OF_INSTANCE } else { MAX_NODES };
    owners().filter(|one| *one == owner).count() >= most
        || (owner.is_some() && owners().flatten().count() >= MAX_NODES_OF_INSTANCES)
}

impl Default for HealthRegistry {
    fn default() -> Self {
        Self { reports: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl HealthRegistry {
    /// How long a report counts.
    pub const MAX_AGE: Duration = Duration::from_secs(30);

    /// The endpoints of a cluster as each node that has reported lately sees them, by its name. A node without that cluster is
    /// left out; the map is empty if no node reports.
    pub fn endpoints(&self, cluster: &str, now: Instant) -> BTreeMap<String, Endpoints> {
        let reports = self.lock();
        let fresh = reports.iter().filter(|(_, report)| report.is_fresh(now));
        fresh.filter_map(|(node, report)| Some((node.clone(), report.clusters.get(cluster)?.clone()))).collect()
    }

    /// Everything that was reported lately, by cluster and node.
    pub fn all(&self, now: Instant) -> BTreeMap<String, BTreeMap<String, Endpoints>> {
        self.all_of(now, |_, _| true)
    }

    /// The same about clusters that still count: `counts` is asked for the views about which a node may report, `None` for all, and for
    /// the cluster. At the time of the report it may have been another one's.
    pub fn all_of(
        &self,
        now: Instant,
        counts: impl Fn(Option<&[View]>, &str) -> bool,
    ) -> BTreeMap<String, BTreeMap<String, Endpoints>> {
        let mut all: BTreeMap<String, BTreeMap<String, Endpoints>> = BTreeMap::new();
        for (node, report) in self.lock().iter().filter(|(_, report)| report.is_fresh(now)) {
            let views = report.views.as_deref();
            for (cluster, endpoints) in report.clusters.iter().filter(|(cluster, _)| counts(views, cluster)) {
                all.entry(cluster.clone()).or_default().insert(node.clone(), endpoints.clone());
            }
        }
        all
    }

    /// The nodes that have reported lately.
    pub fn reporting(&self, now: Instant) -> Vec<String> {
        self.lock().iter().filter(|(_, report)| report.is_fresh(now)).map(|(node, _)| node.clone()).collect()
    }

    /// Changes when a report differs from the one before it. The expiry of a report is no change: ask again after
    /// [`HealthRegistry::MAX_AGE`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes a node's report about whatever is served, as [`HealthRegistry::record_within`].
    pub fn record(&self, node: &str, clusters: BTreeMap<String, Endpoints>, at: Instant) {
        self.record_within(node, clusters, None, at);
    }

    /// Takes a node's report in the place of its last one. It may report about these views; `None` are all. Of more than a thousand nodes
    /// those that report are kept, and of more than a hundred of one owner these. Its answers at other replicas stay until
    /// [`HealthRegistry::answered`].
    pub fn record_within(
        &self,
        node: &str,
        clusters: BTreeMap<String, Endpoints>,
        views: Option<Vec<View>>,
        at: Instant,
    ) {
        let mut reports = self.lock();
        if !reports.contains_key(node) && is_crowded(&reports, node) {
            reports.retain(|_, report| report.is_fresh(at));
            if is_crowded(&reports, node) {
                return;
            }
        }
        let answers = reports.get(node).filter(|before| before.is_fresh(at)).map(|before| Arc::clone(&before.answers));
        let report = Report { at, clusters, views, answers: answers.unwrap_or_default() };
        let before = reports.insert(node.to_owned(), report);
        let is_same = |before: &Report| {
            before.is_fresh(at) && reports.get(node).is_some_and(|now| now.clusters == before.clusters)
        };
        if !before.as_ref().is_some_and(is_same) {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Takes what a node answered at the replica that it follows, in the place of what was known of that. A node without
    /// a report is not remembered.
    pub fn answered(&self, node: &str, answers: AckStates) {
        let mut reports = self.lock();
        let Some(report) = reports.get_mut(node).filter(|report| *report.answers != answers) else { return };
        report.answers = Arc::new(answers);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The answers of nodes at the replicas that they follow, by node, as their agents report them. Nodes without such
    /// answers are left out.
    pub fn answers(&self, now: Instant) -> BTreeMap<String, Arc<AckStates>> {
        let reports = self.lock();
        let known = reports.iter().filter(|(_, report)| report.is_fresh(now) && !report.answers.is_empty());
        known.map(|(node, report)| (node.clone(), Arc::clone(&report.answers))).collect()
    }

    /// The views about which each node that has reported lately may report, by node; `None` are all.
    pub fn views(&self, now: Instant) -> BTreeMap<String, Option<Vec<View>>> {
        let reports = self.lock();
        let fresh = reports.iter().filter(|(_, report)| report.is_fresh(now));
        fresh.map(|(node, report)| (node.clone(), report.views.clone())).collect()
    }

    /// A panic elsewhere leaves the map whole: each change is one insertion or removal.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Report {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= HealthRegistry::MAX_AGE
    }
}

/// Members of the metadata.
const REASON: &str = "reason";
const SINCE: &str = "since";

/// Most servers that are kept of one cluster and node.
pub const MAX_UNHEALTHY_SERVERS: usize = 16;
/// Longest server that is kept: a DNS name with its port.
const MAX_SERVER: usize = 260;

/// A server that is not healthy, as a gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhealthyServer {
    /// Address or DNS name, and port.
    pub server: String,
    /// Why.
    pub reason: UnhealthyReason,
    /// When the gateway's agent saw it first, seconds since 1970.
    pub since: u64,
}

/// Why Envoy sends no requests to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnhealthyReason {
    /// Its health check is answered otherwise than it should be, or the connection fails.
    HealthCheckFailed,
    /// Its health check is not answered in time.
    HealthCheckTimedOut,
    /// Requests to it failed one after the other (outlier detection).
    Ejected,
    /// Its first health check has not ended.
    NotChecked,
}

impl UnhealthyReason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::HealthCheckFailed, Self::HealthCheckTimedOut, Self::Ejected, Self::NotChecked];

    /// One word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HealthCheckFailed => "HealthCheckFailed",
            Self::HealthCheckTimedOut => "HealthCheckTimedOut",
            Self::Ejected => "Ejected",
            Self::NotChecked => "NotChecked",
        }
    }
}

impl UnhealthyServer {
    /// As it travels.
    pub fn endpoint(&self) -> EndpointHealth {
        let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
        let fields = [(REASON, text(self.reason.as_str())), (SINCE, text(&self.since.to_string()))];
        EndpointHealth {
            endpoint: Some(Endpoint { hostname: self.server.clone(), ..Endpoint::default() }),
            health_status: HealthStatus::Unhealthy.into(),
            health_metadata: Some(Struct {
                fields: HashMap::from(fields.map(|(name, value)| (name.to_owned(), value))),
            }),
        }
    }

    /// The server that an endpoint names. `None` for any other endpoint, and for what no server is called.
    pub(super) fn from_report(report: &EndpointHealth) -> Option<Self> {
        let member = |name: &str| match &report.health_metadata.as_ref()?.fields.get(name)?.kind {
            Some(Kind::StringValue(text)) => Some(text.as_str()),
            _ => None,
        };
        let reason = member(REASON)?;
        let reason = UnhealthyReason::ALL.into_iter().find(|one| one.as_str() == reason)?;
        let since = member(SINCE)?.parse().ok()?;
        let server = &report.endpoint.as_ref()?.hostname;
        let is_server = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]%_".contains(&byte);
        let is_named = !server.is_empty() && server.len() <= MAX_SERVER && server.bytes().all(is_server);
        is_named.then(|| Self { server: server.clone(), reason, since })
    }
}

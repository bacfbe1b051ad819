//! Memory of the fleet: the newest activity of each gateway and cluster, an hour of history, changes of conditions. The
//! console and `portcullis top` read it as [`view`]s.
//!
//! Everything is in memory and bounded; a control plane that restarts begins anew, and has numbers after two reports of each
//! gateway.

mod moment;
mod severity;
pub(crate) mod view;

use std::collections::{BTreeMap, btree_map::Entry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_api::CLUSTER_KIND;
use portcullis_api::status::Health;
use tokio::sync::watch;

pub(crate) use moment::Moment;
use view::{ClusterSummary, ClusterView, FleetView, GatewaySummary, ServerView, Severity, UnhealthyAt};

use super::status::{ObjectStatus, StatusBody};
use super::status_observer::StatusObserver;

/// The age to which a view of the fleet is reused, so that many readers cost no more than one.
const MAX_VIEW_AGE: Duration = Duration::from_secs(1);
/// The interval of looking for changes.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The state of the fleet.
pub(crate) struct Fleet {
    observer: Arc<StatusObserver>,
    newest: Mutex<Option<(Instant, Arc<FleetView>)>>,
    changes: watch::Sender<u64>,
}

impl Fleet {
    pub(crate) fn new(observer: Arc<StatusObserver>) -> Self {
        Self { observer, newest: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// All clusters, worst first, and all gateways; at most a second old.
    pub(crate) fn fleet(&self, now: Moment) -> Arc<FleetView> {
        let mut newest = self.lock();
        if let Some((at, view)) = &*newest
            && now.since(*at) < MAX_VIEW_AGE
        {
            return Arc::clone(view);
        }
        let view = Arc::new(fleet_view(&self.observer.status(), now));
        *newest = Some((now.uptime, Arc::clone(&view)));
        view
    }

    /// Everything about one cluster; `None` if no object has that name.
    pub(crate) fn cluster(&self, name: &str, now: Moment) -> Option<ClusterView> {
        cluster_view(&self.observer.status(), name, now)
    }

    /// Changes when the views do, at most once a second.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Follows the status until the runtime ends.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut turns = tokio::time::interval(WATCH_INTERVAL);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// A panic elsewhere leaves the view whole: it is replaced in one step.
    fn lock(&self) -> MutexGuard<'_, Option<(Instant, Arc<FleetView>)>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The health of a cluster's servers, by node.
type HealthByNode = BTreeMap<String, Health>;

/// The health of all servers of each cluster. Envoy clusters are `<instance>/-/<name>/<part>`.
fn health_by_cluster(status: &StatusBody) -> BTreeMap<&str, &HealthByNode> {
    let of_all = status.endpoints.iter().filter_map(|(pool, nodes)| {
        let (owner, part) = pool.rsplit_once('/')?;
        let (_, name) = owner.rsplit_once('/')?;
        (part == "all.h2").then_some((name, nodes))
    });
    of_all.collect()
}

/// The objects, one of each name: of those that share it, the one that is served.
fn objects(status: &StatusBody) -> BTreeMap<&str, &ObjectStatus> {
    let mut objects: BTreeMap<&str, &ObjectStatus> = BTreeMap::new();
    for object in status.objects.iter().filter(|one| one.diagnosis.kind == CLUSTER_KIND) {
        match objects.entry(&object.diagnosis.name) {
            Entry::Vacant(entry) => drop(entry.insert(object)),
            Entry::Occupied(mut entry) if object.diagnosis.accepted => drop(entry.insert(object)),
            Entry::Occupied(_) => {}
        }
    }
    objects
}

fn fleet_view(status: &StatusBody, now: Moment) -> FleetView {
    let health = health_by_cluster(status);
    let gateways = gateways(status);
    let summary = |(name, object): (&str, &ObjectStatus)| summary(name, object, health.get(name).copied(), &gateways);
    let mut clusters: Vec<_> = objects(status).into_iter().map(summary).collect();
    clusters.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.name.cmp(&b.name)));
    FleetView { time: now.seconds, instance: String::new(), clusters, gateways }
}

fn gateways(status: &StatusBody) -> Vec<GatewaySummary> {
    let mut gateways: BTreeMap<&str, GatewaySummary> = BTreeMap::new();
    for node in &status.nodes {
        // A node has two streams for a moment after a reconnect.
        let gateway = gateways.entry(&node.id).or_insert_with(|| GatewaySummary {
            node: node.id.clone(),
            connected: false,
            in_sync: true,
            ..GatewaySummary::default()
        });
        gateway.connected |= node.connected;
        gateway.in_sync &= node.in_sync;
    }
    for node in status.endpoints.values().flat_map(BTreeMap::keys) {
        // It follows another replica.
        gateways.entry(node).or_insert_with(|| GatewaySummary {
            node: node.clone(),
            connected: true,
            in_sync: true,
            ..GatewaySummary::default()
        });
    }
    gateways.into_values().collect()
}

fn summary(
    name: &str,
    object: &ObjectStatus,
    health: Option<&HealthByNode>,
    gateways: &[GatewaySummary],
) -> ClusterSummary {
    let assessment = severity::of_conditions(object);
    let reported = || health.into_iter().flat_map(BTreeMap::values);
    ClusterSummary {
        name: name.to_owned(),
        severity: assessment.severity,
        message: assessment.message,
        healthy_servers: reported().map(|health| health.healthy).min().unwrap_or_default(),
        servers: reported().map(|health| health.total).max().unwrap_or_default(),
        by_gateway: gateways.iter().map(|one| Some(of_health(health?.get(&one.node)?))).collect(),
        ..ClusterSummary::default()
    }
}

fn of_health(health: &Health) -> Severity {
    match health.healthy {
        0 => Severity::Critical,
        healthy if healthy < health.total => Severity::Warning,
        _ => Severity::Good,
    }
}

fn cluster_view(status: &StatusBody, name: &str, now: Moment) -> Option<ClusterView> {
    let object = objects(status).remove(name)?;
    let health = health_by_cluster(status).remove(name);
    let gateways = gateways(status);
    let mut servers: BTreeMap<&str, ServerView> = BTreeMap::new();
    for (node, health) in health.into_iter().flatten() {
        for one in &health.unhealthy {
            let server = servers
                .entry(&one.server)
                .or_insert_with(|| ServerView { server: one.server.clone(), ..ServerView::default() });
            server.unhealthy.push(UnhealthyAt { node: node.clone(), reason: one.reason.clone(), since: 0 });
        }
    }
    Some(ClusterView {
        time: now.seconds,
        summary: summary(name, object, health, &gateways),
        servers: servers.into_values().collect(),
        conditions: object.status.conditions.clone(),
        ..ClusterView::default()
    })
}

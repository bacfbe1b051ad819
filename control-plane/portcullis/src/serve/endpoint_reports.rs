//! The health of endpoints as gateways report it, by pool. It follows the reports that are other ones, and the pools that the snapshot
//! has otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::status::{Health, Timestamp, UnhealthyServer};
use portcullis_filter_config::without_generation;
use portcullis_translate::type_urls;
use portcullis_xds::{ChangedNames, Endpoints, HealthReport, Resource, Snapshot, View};

use super::changed_keys::changed_keys;
use super::instance_views::is_lasting_view;

/// The health of one pool, by node.
pub(super) type HealthByNode = BTreeMap<String, Health>;

/// That of all pools, by the names under which nodes report.
pub(super) type EndpointHealth = BTreeMap<Arc<str>, Arc<HealthByNode>>;

/// The endpoint health that gateways reported lately about what is theirs in this snapshot: a former owner's last report ends with the
/// hand-over.
#[derive(Default)]
pub(super) struct EndpointReports {
    reports: BTreeMap<String, Arc<HealthReport>>,
    snapshot: Option<Arc<Snapshot>>,
    endpoints: Arc<EndpointHealth>,
}

/// Pools that a node may see otherwise than before, by node.
type ChangedPools<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

impl EndpointReports {
    /// The health of all pools. The same allocation as long as nothing of it is otherwise.
    pub(super) fn endpoints(&self) -> &Arc<EndpointHealth> {
        &self.endpoints
    }

    /// Follows the newest reports of all nodes and the snapshot. Returns the owners of pools that are seen otherwise.
    pub(super) fn follow(
        &mut self,
        reports: &BTreeMap<String, Arc<HealthReport>>,
        snapshot: Option<&Arc<Snapshot>>,
    ) -> ChangedNames {
        let (known, served) = (std::mem::replace(&mut self.reports, reports.clone()), self.snapshot.take());
        self.snapshot = snapshot.cloned();
        let mut changed = ChangedPools::new();
        for node in known.keys().chain(reports.keys()) {
            let pools = changed_pools(known.get(node), reports.get(node));
            if !pools.is_empty() {
                changed.insert(node, pools);
            }
        }
        let of_snapshot = served_otherwise(served.as_deref(), snapshot.map(AsRef::as_ref));
        for (node, report) in reports.iter().filter(|(_, report)| report.views.is_some()) {
            let pools: Vec<&String> = match &of_snapshot {
                ChangedNames::Named(names) => {
                    names.iter().filter_map(|name| Some(report.clusters.get_key_value(&**name)?.0)).collect()
                }
                ChangedNames::All => report.clusters.keys().collect(),
            };
            if !pools.is_empty() {
                changed.entry(node).or_default().extend(pools.into_iter().map(String::as_str));
            }
        }
        let counting = ReportedPools::of(snapshot.map(AsRef::as_ref));
        let mut owners = ChangedNames::default();
        for (node, pools) in changed {
            let report = reports.get(node);
            for pool in pools {
                let seen = report.and_then(|report| counting.seen(report, pool));
                if self.set(pool, node, seen) {
                    match report {
                        Some(report) => counting.owner(report, pool).into_iter().for_each(|owner| owners.add(owner)),
                        None => owners.add_all(),
                    }
                }
            }
        }
        owners
    }

    /// Sets the health of a pool as a node sees it. Returns whether it was otherwise.
    fn set(&mut self, pool: &str, node: &str, seen: Option<Health>) -> bool {
        let known = self.endpoints.get(pool).and_then(|nodes| nodes.get(node));
        if known == seen.as_ref() {
            return false;
        }
        let endpoints = Arc::make_mut(&mut self.endpoints);
        match seen {
            Some(seen) => {
                let nodes = endpoints.entry(pool.into()).or_default();
                Arc::make_mut(nodes).insert(node.to_owned(), seen);
            }
            None => {
                let nodes = endpoints.get_mut(pool);
                nodes.into_iter().for_each(|nodes| drop(Arc::make_mut(nodes).remove(node)));
                if endpoints.get(pool).is_some_and(|nodes| nodes.is_empty()) {
                    endpoints.remove(pool);
                }
            }
        }
        true
    }
}

/// The pools of which two reports of one node say something else.
fn changed_pools<'a>(before: Option<&'a Arc<HealthReport>>, after: Option<&'a Arc<HealthReport>>) -> BTreeSet<&'a str> {
    let all = |report: &'a Arc<HealthReport>| report.clusters.keys().map(String::as_str);
    match (before, after) {
        (Some(before), Some(after)) if before.views == after.views => {
            if Arc::ptr_eq(&before.clusters, &after.clusters) {
                return BTreeSet::new();
            }
            changed_keys(&before.clusters, &after.clusters).into_iter().map(String::as_str).collect()
        }
        (before, after) => before.into_iter().chain(after).flat_map(all).collect(),
    }
}

/// The pools that views of instances have otherwise in another snapshot: with them it is another gateway's to report about a pool.
fn served_otherwise(before: Option<&Snapshot>, after: Option<&Snapshot>) -> ChangedNames {
    let mut changed = ChangedNames::default();
    if before.map(std::ptr::from_ref) == after.map(std::ptr::from_ref) {
        return changed;
    }
    if is_divided(before) != is_divided(after) {
        return ChangedNames::All;
    }
    if !is_divided(after) {
        return changed;
    }
    let none = Snapshot::default();
    let views = |one: Option<&Snapshot>| {
        let names = one.into_iter().flat_map(Snapshot::views).map(|(name, _)| name.to_owned());
        names.filter(|name| is_lasting_view(name)).collect::<Vec<_>>()
    };
    let names: BTreeSet<Option<String>> = views(before).into_iter().chain(views(after)).map(Some).collect();
    for view in names.into_iter().chain([None]).map(View) {
        let before = before.and_then(|one| one.view(&view)).unwrap_or(&none);
        let after = after.and_then(|one| one.view(&view)).unwrap_or(&none);
        before.changes(after, type_urls::cluster()).for_each(|name| changed.add(without_generation(name)));
    }
    changed
}

fn is_divided(snapshot: Option<&Snapshot>) -> bool {
    snapshot.is_some_and(|snapshot| snapshot.views().any(|(name, _)| is_lasting_view(name)))
}

/// The pools about which gateways of each view may report.
struct ReportedPools<'a> {
    snapshot: Option<&'a Snapshot>,
    is_divided: bool,
}

impl<'a> ReportedPools<'a> {
    fn of(snapshot: Option<&'a Snapshot>) -> Self {
        Self { snapshot, is_divided: is_divided(snapshot) }
    }

    /// A pool as a node's report has it, if the node may report about it.
    fn seen(&self, report: &HealthReport, pool: &str) -> Option<Health> {
        let seen = report.clusters.get(pool)?;
        self.may_report(report.views.as_deref(), pool).then(|| health_of(seen))
    }

    fn may_report(&self, views: Option<&[View]>, pool: &str) -> bool {
        let (Some(views), true) = (views, self.is_divided) else { return true };
        let is_pool = without_generation(pool) == pool;
        let is_owner = |view: &&View| view.0.as_deref().is_none_or(is_lasting_view);
        let has = |view: &View| self.snapshot.and_then(|one| one.view(view)).is_some_and(|one| one.has_cluster(pool));
        is_pool && views.iter().filter(is_owner).any(has)
    }

    /// The owner of a pool. It is the same in all views: the owner's name is a part of the pool's.
    fn owner(&self, report: &HealthReport, pool: &str) -> Option<&'a str> {
        let snapshot = self.snapshot?;
        let likely = report.views.iter().flatten().filter_map(|view| snapshot.view(view));
        let all = std::iter::once(snapshot).chain(snapshot.views().map(|(_, view)| view));
        likely.chain(all).find_map(|view| view.clusters_named(pool).find_map(Resource::owner))
    }
}

/// The health of a pool, as status has it.
pub(super) fn health_of(seen: &Endpoints) -> Health {
    let server = |one: &portcullis_xds::UnhealthyServer| UnhealthyServer {
        server: one.server.clone(),
        reason: one.reason.as_str().to_owned(),
        since: Timestamp::from_seconds(one.since),
    };
    Health { healthy: seen.healthy, total: seen.total, unhealthy: seen.unhealthy.iter().map(server).collect() }
}

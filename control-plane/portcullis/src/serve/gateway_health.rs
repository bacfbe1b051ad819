//! The health of servers as Envoys of Gateways find it, by the object: what they report of pools that their Gateway has now.
//!
//! Tenants may run these Envoys. Their reports are read at a pace of their own, so that one that says something else each time has no
//! status written each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::status::GatewayHealth;
use portcullis_api::upstream_key;
use portcullis_attach::ObjectName;
use portcullis_filter_config::{Pool, TCP_POOL};
use portcullis_xds::{HealthRegistry, HealthReport, NodeStatus, Snapshot, View};

use super::endpoint_reports::health_of;
use super::gateway_views::gateway_of_view;

/// The time between two looks at the reports.
pub(super) const PACE: Duration = Duration::from_secs(10);
/// The group of all servers of an object.
const ALL_SERVERS: &str = "all";

/// By the name of an `UpstreamCluster` or the key of a `KubernetesUpstream`: the Gateways that have it, each once, as far as one of them
/// reports. One of which only the name is known has Envoys that do not.
pub(super) type HealthAtGateways = BTreeMap<String, Vec<GatewayHealth>>;

/// The newest reports about the views that Gateways have now.
#[derive(Default)]
pub(super) struct GatewayHealthReports {
    looked: Option<Instant>,
    reports: BTreeMap<String, Arc<HealthReport>>,
    /// The versions of the views of Gateways whose Envoys report or are connected.
    views: BTreeMap<View, String>,
    by_object: Arc<HealthAtGateways>,
}

impl GatewayHealthReports {
    /// Follows the snapshot, at once, and the reports at `pace`. `nodes` are those that are connected, as far as they matter. The same
    /// allocation as long as nothing is otherwise.
    pub(super) fn follow(
        &mut self,
        registry: &HealthRegistry,
        (snapshot, nodes): (Option<&Snapshot>, &[NodeStatus]),
        (now, pace): (Instant, Duration),
    ) -> Arc<HealthAtGateways> {
        let is_due = self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= pace);
        let mut is_new = false;
        if is_due {
            let newest = registry.gateway_reports(now);
            is_new = !are_same(&self.reports, &newest);
            (self.looked, self.reports) = (Some(now), newest);
        }
        let views = versions(&self.reports, nodes, snapshot);
        if is_new || views != self.views {
            let by_object = by_object(&self.reports, &views, snapshot);
            self.views = views;
            if by_object != *self.by_object {
                self.by_object = Arc::new(by_object);
            }
        }
        Arc::clone(&self.by_object)
    }
}

fn are_same(one: &BTreeMap<String, Arc<HealthReport>>, other: &BTreeMap<String, Arc<HealthReport>>) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|((one, report), (other, newer))| one == other && Arc::ptr_eq(report, newer))
}

/// The versions of the views about which there are reports, and of those of connected nodes.
fn versions(
    reports: &BTreeMap<String, Arc<HealthReport>>,
    nodes: &[NodeStatus],
    snapshot: Option<&Snapshot>,
) -> BTreeMap<View, String> {
    let reported = reports.values().flat_map(|report| report.views.iter().flatten());
    let connected = nodes.iter().filter(|node| node.connected).map(|node| &node.view);
    let views: BTreeSet<&View> = reported.chain(connected).filter(|view| gateway_of(view).is_some()).collect();
    let version = |view: &View| Some((view.clone(), snapshot?.view(view)?.version().to_owned()));
    views.into_iter().filter_map(version).collect()
}

fn gateway_of(view: &View) -> Option<ObjectName> {
    gateway_of_view(view.0.as_deref()?)
}

/// The health of each object at the Gateways of these views.
fn by_object(
    reports: &BTreeMap<String, Arc<HealthReport>>,
    views: &BTreeMap<View, String>,
    snapshot: Option<&Snapshot>,
) -> HealthAtGateways {
    let mut pools: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut found: BTreeMap<String, BTreeMap<ObjectName, GatewayHealth>> = BTreeMap::new();
    for report in reports.values() {
        for view in report.views.iter().flatten() {
            let served = snapshot.and_then(|snapshot| snapshot.view(view));
            let (Some(gateway), Some(served)) = (gateway_of(view), served) else { continue };
            for (pool, seen) in report.clusters.iter() {
                // A route or a grant may have ended since it was reported.
                let Some((object, group)) = group_of(pool).filter(|_| served.has_cluster(pool)) else { continue };
                pools.entry(object.clone()).or_default().insert(pool);
                let at = found.entry(object).or_default().entry(gateway.clone());
                at.or_insert_with(|| GatewayHealth::new(gateway.to_string()))
                    .add(&health_of(seen), group == ALL_SERVERS);
            }
        }
    }
    for (object, pools) in &pools {
        for view in views.keys() {
            let served = snapshot.and_then(|snapshot| snapshot.view(view));
            let (Some(gateway), Some(served)) = (gateway_of(view), served) else { continue };
            if pools.iter().any(|pool| served.has_cluster(pool)) {
                let at = found.entry(object.clone()).or_default().entry(gateway.clone());
                at.or_insert_with(|| GatewayHealth::new(gateway.to_string()));
            }
        }
    }
    found.into_iter().map(|(object, gateways)| (object, gateways.into_values().collect())).collect()
}

/// The object of a pool, and the group of its servers; `None` of other pools: a Service is no object of ours, and nothing is known of its
/// servers.
fn group_of(pool: &str) -> Option<(String, &str)> {
    let mut parts = pool.splitn(4, '/').skip(1);
    let (namespace, name, part) = (parts.next()?, parts.next()?, parts.next()?);
    let (group, kind) = part.rsplit_once('.')?;
    match namespace {
        "-" if [Pool::Http2.as_str(), TCP_POOL].contains(&kind) => Some((name.to_owned(), group)),
        "-" => None,
        _ if kind == Pool::Http2.as_str() => Some((upstream_key(namespace, name), group)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

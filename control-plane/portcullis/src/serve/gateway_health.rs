//! The health of servers as Envoys of Gateways find it, by the object: what they report of pools that their Gateway has now.
//!
//! Tenants may run these Envoys. Their reports are read at a pace of their own, so that one that says something else each time has no
//! status written each time.

mod view_health;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::status::GatewayHealth;
use portcullis_attach::ObjectName;
use portcullis_xds::{HealthRegistry, HealthReport, NodeStatus, Snapshot};

use super::gateway_views::gateway_of_view;
use view_health::{SeenView, ViewHealth};

/// The time between two looks at the reports.
pub(super) const PACE: Duration = Duration::from_secs(10);
/// The looks at reports for one change of an object that decides nothing.
const LOOKS_AT_NAMES: u32 = 6;

/// By the name of an `UpstreamCluster` or the key of a `KubernetesUpstream`: the Gateways that have it, each once, as far as one of them
/// reports. One of which only the name is known has Envoys that do not.
pub(super) type HealthAtGateways = BTreeMap<String, Vec<GatewayHealth>>;

/// The newest reports about the views that Gateways have now. An edit of one view, or a report about one, costs what is different in that
/// view.
#[derive(Default)]
pub(super) struct GatewayHealthReports {
    looked: Option<Instant>,
    reports: BTreeMap<String, Arc<HealthReport>>,
    /// The Gateways whose Envoys report or are connected.
    views: BTreeMap<ObjectName, ViewHealth>,
    by_object: Arc<HealthAtGateways>,
    /// Objects of which only names, times and numbers are others, and were so of late.
    postponed: BTreeSet<String>,
    /// When these were others and nothing else was, by object. The first such change counts at once: a new server has no check yet.
    named: BTreeMap<String, Instant>,
}

impl GatewayHealthReports {
    /// Follows the snapshot, at once, and the reports at `pace`; more seldom what says no more than other names, times and numbers of
    /// servers. `nodes` are those that are connected, as far as they matter. The same allocation as long as nothing is otherwise.
    pub(super) fn follow(
        &mut self,
        registry: &HealthRegistry,
        (snapshot, nodes): (Option<&Snapshot>, &[NodeStatus]),
        (now, pace): (Instant, Duration),
    ) -> Arc<HealthAtGateways> {
        let is_due = self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= pace);
        if is_due {
            (self.looked, self.reports) = (Some(now), registry.gateway_reports(now));
        }
        let mut changed = follow_views(&mut self.views, &seen_views(&self.reports, nodes, snapshot), &self.by_object);
        if is_due {
            let names_pace = pace.saturating_mul(LOOKS_AT_NAMES);
            self.named.retain(|_, named| now.saturating_duration_since(*named) < names_pace);
            changed.append(&mut self.postponed);
        }
        for object in changed {
            let newest = health_at_all(&self.views, &object);
            self.take(object, newest, now);
        }
        Arc::clone(&self.by_object)
    }

    /// Takes the newest health of an object. One that decides as the one before is left for later, if there was one like it of late.
    fn take(&mut self, object: String, newest: Option<Vec<GatewayHealth>>, now: Instant) {
        let known = self.by_object.get(&object);
        if known == newest.as_ref() {
            self.postponed.remove(&object);
            return;
        }
        if known.zip(newest.as_ref()).is_some_and(|(known, newest)| decide_alike(known, newest)) {
            if self.named.contains_key(&object) {
                self.postponed.insert(object);
                return;
            }
            self.named.insert(object.clone(), now);
        }
        self.postponed.remove(&object);
        let by_object = Arc::make_mut(&mut self.by_object);
        match newest {
            Some(newest) => drop(by_object.insert(object, newest)),
            None => drop(by_object.remove(&object)),
        }
    }
}

fn decide_alike(known: &[GatewayHealth], newest: &[GatewayHealth]) -> bool {
    known.len() == newest.len() && known.iter().zip(newest).all(|(known, newest)| known.decides_as(newest))
}

/// The views about which there are reports, and those of connected nodes, as far as the snapshot has them.
fn seen_views<'a>(
    reports: &'a BTreeMap<String, Arc<HealthReport>>,
    nodes: &'a [NodeStatus],
    snapshot: Option<&'a Snapshot>,
) -> BTreeMap<ObjectName, SeenView<'a>> {
    let connected = nodes.iter().filter(|node| node.connected).map(|node| (&node.view, None));
    let reported = reports.values().flat_map(|report| {
        let views = report.views.iter().flatten();
        views.map(move |view| (view, Some(&report.clusters)))
    });
    let mut seen: BTreeMap<ObjectName, SeenView<'a>> = BTreeMap::new();
    for (view, clusters) in connected.chain(reported) {
        let gateway = view.0.as_deref().and_then(gateway_of_view);
        let served = snapshot.and_then(|snapshot| snapshot.view(view));
        let (Some(gateway), Some(served)) = (gateway, served) else { continue };
        let one = seen.entry(gateway).or_insert_with(|| SeenView { served, reports: Vec::new() });
        one.reports.extend(clusters);
    }
    seen
}

/// Follows the views. Returns the objects about which one of them says something else. `known` are those that were reported.
fn follow_views(
    views: &mut BTreeMap<ObjectName, ViewHealth>,
    seen: &BTreeMap<ObjectName, SeenView<'_>>,
    known: &HealthAtGateways,
) -> BTreeSet<String> {
    let (mut changed, none) = (BTreeSet::new(), ViewHealth::default());
    views.retain(|gateway, before| {
        let is_seen = seen.contains_key(gateway);
        if !is_seen {
            changed.extend(before.differences(&none, known).cloned());
        }
        is_seen
    });
    for (gateway, seen) in seen {
        let before = views.get(gateway);
        if before.is_some_and(|before| before.is_of(seen)) {
            continue;
        }
        let newer = ViewHealth::of(gateway, seen, before);
        changed.extend(newer.differences(before.unwrap_or(&none), known).cloned());
        views.insert(gateway.clone(), newer);
    }
    changed
}

/// The health of an object at all Gateways that have it; `None` if none of them reports.
fn health_at_all(views: &BTreeMap<ObjectName, ViewHealth>, object: &str) -> Option<Vec<GatewayHealth>> {
    let is_reported = views.values().any(|view| view.reports(object));
    is_reported.then(|| views.values().filter_map(|view| view.health(object)).collect())
}

#[cfg(test)]
mod tests;

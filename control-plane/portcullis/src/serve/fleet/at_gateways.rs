//! Activity at Gateways of the Gateway API. Tenants may run their Envoys, which may report anything: it is remembered apart from the fleet's,
//! and part of no sum, ratio, history or condition.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use portcullis_xds::InstanceShares;

use super::super::report_origin::ReportOrigin;
use super::activity::{Bounds, GatewayActivity};
use super::fleet_time::FleetTime;
use super::process::KnownObjects;
use super::rates::Rates;
use super::served_objects::ServedObjects;
use super::view::GatewayTraffic;
use crate::activity_report::{ClusterMessage, ReportPart};

/// Bytes for the Gateways of each namespace. A cluster takes about one KiB in each of their Envoys.
const SHARES: InstanceShares = InstanceShares { own: 256 << 10, rest: 16 << 20, most: 4 << 20 };

/// The activity of all Envoys of Gateways.
#[derive(Debug)]
pub(super) struct ActivityAtGateways(GatewayActivity);

/// The Envoys of one Gateway that count, and their rates together.
#[derive(Default)]
struct GatewaySum {
    envoys: u32,
    rates: Rates,
}

impl Default for ActivityAtGateways {
    fn default() -> Self {
        // Each of them has an owner.
        let bounds =
            Bounds { of_one: SHARES.most, of_all: 0, reserve: 0, little: 0, instances: SHARES, sums_only: true };
        Self(GatewayActivity::within(bounds))
    }
}

impl ActivityAtGateways {
    /// Takes what an Envoy reports about objects of its Gateway's view.
    pub(super) fn take(
        &mut self,
        from: ReportOrigin<'_>,
        report: &ReportPart,
        clusters: Vec<ClusterMessage>,
        at: Instant,
    ) {
        self.0.take(from, report, clusters, at);
        // No reader waits for the names of what has changed.
        drop(self.0.take_touched());
    }

    /// Follows the objects.
    pub(super) fn follow(&mut self, objects: KnownObjects) {
        self.0.follow(objects);
    }

    /// Follows some of the objects, each by its word; `None` if there is none of that name any more.
    pub(super) fn follow_some(&mut self, changed: &BTreeMap<&str, Option<String>>) {
        self.0.follow_some(changed);
    }

    /// Forgets these clusters.
    pub(super) fn forget_clusters(&mut self, names: &BTreeSet<&str>) {
        self.0.forget_clusters(names, |_, _| false);
    }

    /// Forgets the clusters to which views send requests no more since `before`, at their Gateways.
    pub(super) fn follow_views(&mut self, served: &ServedObjects, before: &ServedObjects) {
        let ended = served.requests_ended_since(before);
        if !ended.is_empty() {
            self.0.forget_clusters(&ended, |membership, name| served.may_report(membership, name));
        }
    }

    /// Forgets Envoys that have gone.
    pub(super) fn forget_gone(&mut self, now: Instant) {
        self.0.forget_gone(now);
    }

    /// A line for each Gateway whose Envoys report, by name: of all clusters to which its view sends requests, or of one of them.
    pub(super) fn lines(&self, cluster: Option<&str>, served: &ServedObjects, now: FleetTime) -> Vec<GatewayTraffic> {
        let mut sums: BTreeMap<&str, GatewaySum> = BTreeMap::new();
        for (membership, process, reported) in self.0.reporting_with_membership(now) {
            let Some(gateway) = membership.gateway().filter(|gateway| served.has_view(gateway)) else { continue };
            // The view decides again: it may have changed since the report.
            let rates = match cluster {
                Some(name) if !served.may_report(membership, name) => continue,
                Some(name) => process.cluster(name).map(|activity| activity.rates(reported)),
                None => Some(sum(process.rates().filter(|(name, _)| served.may_report(membership, name)))),
            };
            let Some(rates) = rates else { continue };
            let line = sums.entry(gateway).or_default();
            line.envoys = line.envoys.saturating_add(1);
            line.rates.add(&rates);
        }
        sums.into_iter().map(|(gateway, sum)| traffic(gateway, &sum)).collect()
    }

    /// The memory that it takes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

fn sum<'a>(all: impl Iterator<Item = (&'a str, Rates)>) -> Rates {
    let mut sum = Rates::default();
    all.for_each(|(_, rates)| sum.add(&rates));
    sum
}

fn traffic(gateway: &str, sum: &GatewaySum) -> GatewayTraffic {
    let Rates { errors, conclusive, .. } = sum.rates;
    let error_ratio = (conclusive > 0.0).then(|| errors / conclusive);
    GatewayTraffic { gateway: gateway.to_owned(), envoys: sum.envoys, error_ratio, numbers: sum.rates.numbers() }
}

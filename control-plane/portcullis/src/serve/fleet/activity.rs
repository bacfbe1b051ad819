use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use portcullis_core::observe::Outcome;
use portcullis_xds::{ChangedNames, InstanceShares, Membership, OwnerBytes, node_owner};

use super::super::report_origin::ReportOrigin;
use super::fleet_time::FleetTime;
use super::process::{KnownObjects, ProcessActivity, ProcessPart};
use crate::activity_report::{ClusterMessage, OTHER, ReportPart};

/// The age to which a report counts. Agents send one every 10 seconds at the least.
const MAX_AGE: Duration = Duration::from_secs(30);
/// How long a gateway without reports is remembered.
const MEMORY: Duration = Duration::from_secs(600);
/// Most gateways that are remembered and belong to no instance.
const MAX_GATEWAYS: usize = 1_000;
/// The same of those of one instance.
const MAX_GATEWAYS_OF_INSTANCE: usize = 100;

/// Most bytes of activity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of one gateway.
    pub(super) of_one: usize,
    /// Of all gateways of no instance; beyond them only the sums of clusters that are remembered go on.
    pub(super) of_all: usize,
    /// The part of it that is kept for gateways which take little, so that a few large ones leave room for all others: more than
    /// the gateways that one certificate can invent take with [`Bounds::little`] each.
    pub(super) reserve: usize,
    /// Of a gateway that takes little.
    pub(super) little: usize,
    /// Of the gateways of instances.
    pub(super) instances: InstanceShares,
    /// Whether sums of clusters are kept alone, without policies, servers, limits and clients.
    pub(super) sums_only: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        let instances = InstanceShares { own: 2 << 20, rest: 128 << 20, most: 34 << 20 };
        Self { of_one: 48 << 20, of_all: 256 << 20, reserve: 64 << 20, little: 256 << 10, instances, sums_only: false }
    }
}

/// The activity of all gateways, by the names of their nodes.
#[derive(Debug, Default)]
pub(super) struct GatewayActivity {
    bounds: Bounds,
    gateways: BTreeMap<String, KnownGateway>,
    /// The objects, as soon as there are any.
    known: Option<KnownObjects>,
    bytes: OwnerBytes,
    /// The clusters of which a gateway's activity may be otherwise than when they were taken last.
    touched: ChangedNames,
}

/// A gateway that is remembered.
#[derive(Debug)]
struct KnownGateway {
    /// The Gateway, or the instances, that it belonged to last.
    membership: Membership,
    process: ProcessActivity,
}

impl GatewayActivity {
    /// Without any activity, with other bounds than usual.
    pub(super) fn within(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Takes a part of a gateway's report that came at `at`.
    pub(super) fn take(
        &mut self,
        from: ReportOrigin<'_>,
        report: &ReportPart,
        clusters: Vec<ClusterMessage>,
        at: Instant,
    ) {
        let reasons = report.reasons.iter().map(|reason| position(reason)).collect();
        let &ReportPart { process, uptime_seconds, complete, partial, more, .. } = report;
        let part = ProcessPart { uptime_seconds, complete, partial, more, reasons, clusters };
        let owner = from.owner();
        if !self.gateways.contains_key(from.name) && !self.has_place(owner, at) {
            return;
        }
        let Bounds { of_one, of_all, reserve, little, instances, sums_only } = self.bounds;
        let of_one = if owner.is_some() { of_one.min(instances.most) } else { of_one };
        let new = || ProcessActivity::new(process, of_one, sums_only);
        let known = || KnownGateway { membership: from.membership.clone(), process: new() };
        let gateway = self.gateways.entry(from.name.to_owned()).or_insert_with(known);
        // A certificate may name several Gateways: the counts of one are not those of the next.
        let is_of_another = gateway.membership.gateway() != from.membership.gateway();
        if gateway.membership != *from.membership {
            gateway.membership = from.membership.clone();
        }
        part.clusters.iter().for_each(|message| self.touched.add(message.cluster.as_str()));
        let gateway = &mut gateway.process;
        let room = if gateway.bytes() < little { of_all } else { of_all.saturating_sub(reserve) };
        let has_room = self.bytes.has_room(owner, 1, room, &instances);
        let before = gateway.bytes();
        if gateway.process != process || is_of_another {
            *gateway = new();
            self.touched.add_all();
        }
        gateway.take(&part, self.known.as_ref(), has_room, at);
        self.bytes.change(owner, before, gateway.bytes());
    }

    /// The text of a reason.
    pub(super) fn reason_text(&self, position: u8) -> &'static str {
        Outcome::reasons().nth(position.into()).unwrap_or(OTHER)
    }

    /// Whether another gateway of an owner can be remembered. Those that report stay.
    fn has_place(&mut self, owner: Option<&str>, at: Instant) -> bool {
        if self.is_full(owner) {
            self.forget(at, MAX_AGE);
        }
        !self.is_full(owner)
    }

    fn is_full(&self, owner: Option<&str>) -> bool {
        let most = if owner.is_some() { MAX_GATEWAYS_OF_INSTANCE } else { MAX_GATEWAYS };
        self.gateways.keys().filter(|name| node_owner(name) == owner).count() >= most
            || !self.bytes.has_room(owner, 1, self.bounds.of_all, &self.bounds.instances)
    }

    fn recount(&mut self) {
        let all = self.gateways.iter().map(|(name, gateway)| (node_owner(name), gateway.process.bytes()));
        self.bytes = OwnerBytes::sums(all);
    }

    fn forget(&mut self, at: Instant, age: Duration) {
        let is_young =
            |gateway: &ProcessActivity| gateway.heard().is_some_and(|heard| at.saturating_duration_since(heard) <= age);
        let count = self.gateways.len();
        self.gateways.retain(|_, gateway| is_young(&gateway.process));
        if self.gateways.len() < count {
            self.touched.add_all();
        }
        self.recount();
    }

    /// Follows the objects.
    pub(super) fn follow(&mut self, objects: KnownObjects) {
        self.touched.add_all();
        self.gateways.values_mut().for_each(|gateway| gateway.process.retain_known(&objects));
        self.recount();
        self.known = Some(objects);
    }

    /// Follows some of the objects, each by its word; `None` if there is none of that name any more. Before all were followed, nothing
    /// is known of them.
    pub(super) fn follow_some(&mut self, changed: &BTreeMap<&str, Option<String>>) {
        let Some(objects) = &mut self.known else { return };
        for (name, word) in changed {
            match word {
                Some(word) => objects.insert((*name).to_owned(), word.clone()),
                None => objects.remove(*name),
            };
            self.touched.add(*name);
        }
        let (objects, names) = (&*objects, changed.keys().copied().collect());
        self.gateways.values_mut().for_each(|gateway| gateway.process.retain_known_of(&names, objects));
        self.recount();
    }

    /// Forgets gateways that have gone.
    pub(super) fn forget_gone(&mut self, now: Instant) {
        self.forget(now, MEMORY);
    }

    /// Forgets the activity of clusters of these names. `is_kept` says at which gateways it stays.
    pub(super) fn forget_clusters(&mut self, names: &BTreeSet<&str>, is_kept: impl Fn(&Membership, &str) -> bool) {
        names.iter().for_each(|name| self.touched.add(*name));
        for KnownGateway { membership, process } in self.gateways.values_mut() {
            process.forget_clusters(names, |name| is_kept(membership, name));
        }
        self.recount();
    }

    /// The clusters of which a gateway's activity may be otherwise than when this was asked last, as long as the same gateways report.
    pub(super) fn take_touched(&mut self) -> ChangedNames {
        std::mem::take(&mut self.touched)
    }

    /// Every gateway that is remembered, by node.
    pub(super) fn gateways(&self) -> impl Iterator<Item = (&str, &ProcessActivity)> {
        self.gateways.iter().map(|(node, gateway)| (node.as_str(), &gateway.process))
    }

    /// The gateways whose last report counts.
    pub(super) fn reporting(&self, now: FleetTime) -> impl Iterator<Item = (&str, &ProcessActivity, Instant)> {
        self.gateways().filter_map(move |(node, gateway)| {
            let reported = gateway.reported().filter(|reported| now.since(*reported) <= MAX_AGE)?;
            Some((node, gateway, reported))
        })
    }

    /// Those whose last report counts, each with the membership of its certificate.
    pub(super) fn reporting_with_membership(
        &self,
        now: FleetTime,
    ) -> impl Iterator<Item = (&Membership, &ProcessActivity, Instant)> {
        self.gateways.values().filter_map(move |KnownGateway { membership, process }| {
            let reported = process.reported().filter(|reported| now.since(*reported) <= MAX_AGE)?;
            Some((membership, process, reported))
        })
    }

    /// The memory that it takes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.total()
    }
}

/// The position of a reason among those that a filter has; gateways invent no others.
fn position(reason: &str) -> u8 {
    let position = Outcome::reasons().position(|known| known == reason).and_then(|at| u8::try_from(at).ok());
    position.unwrap_or(u8::MAX)
}

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use portcullis_core::observe::Outcome;

use super::fleet_time::FleetTime;
use super::process::{KnownObjects, ProcessActivity, ProcessPart};
use crate::activity_report::{ClusterMessage, OTHER, ReportPart};

/// The age to which a report counts. Agents send one every 10 seconds at the least.
const MAX_AGE: Duration = Duration::from_secs(30);
/// How long a gateway without reports is remembered.
const MEMORY: Duration = Duration::from_secs(600);
/// Most gateways that are remembered.
const MAX_GATEWAYS: usize = 1_000;

/// Most bytes of activity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of one gateway.
    pub(super) of_one: usize,
    /// Of all gateways; beyond them only the sums of clusters that are remembered go on.
    pub(super) of_all: usize,
    /// The part of it that is kept for gateways which take little, so that a few large ones leave room for all others: more than
    /// the gateways that one certificate can invent take with [`Bounds::little`] each.
    pub(super) reserve: usize,
    /// Of a gateway that takes little.
    pub(super) little: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { of_one: 48 << 20, of_all: 256 << 20, reserve: 64 << 20, little: 256 << 10 }
    }
}

/// The activity of all gateways, by node.
#[derive(Debug, Default)]
pub(super) struct GatewayActivity {
    bounds: Bounds,
    gateways: BTreeMap<String, ProcessActivity>,
    /// The objects, as soon as there are any.
    known: Option<KnownObjects>,
    bytes: usize,
}

impl GatewayActivity {
    /// Without any activity, with other bounds than usual.
    #[cfg(test)]
    pub(super) fn within(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Takes a part of a gateway's report that came at `at`.
    pub(super) fn take(&mut self, node: &str, report: &ReportPart, clusters: Vec<ClusterMessage>, at: Instant) {
        let reasons = report.reasons.iter().map(|reason| position(reason)).collect();
        let &ReportPart { process, uptime_seconds, complete, partial, more, .. } = report;
        let part = ProcessPart { uptime_seconds, complete, partial, more, reasons, clusters };
        if !self.gateways.contains_key(node) && !self.has_room(at) {
            return;
        }
        let Bounds { of_one, of_all, reserve, little } = self.bounds;
        let new = || ProcessActivity::new(process, of_one);
        let gateway = self.gateways.entry(node.to_owned()).or_insert_with(new);
        let room = if gateway.bytes() < little { of_all } else { of_all.saturating_sub(reserve) };
        let has_room = self.bytes < room;
        self.bytes = self.bytes.saturating_sub(gateway.bytes());
        if gateway.process != process {
            *gateway = new();
        }
        gateway.take(&part, self.known.as_ref(), has_room, at);
        self.bytes += gateway.bytes();
    }

    /// The text of a reason.
    pub(super) fn reason_text(&self, position: u8) -> &'static str {
        Outcome::reasons().nth(position.into()).unwrap_or(OTHER)
    }

    /// Whether another gateway can be remembered. Those that report stay.
    fn has_room(&mut self, at: Instant) -> bool {
        if self.is_full() {
            self.forget(at, MAX_AGE);
        }
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.gateways.len() >= MAX_GATEWAYS || self.bytes >= self.bounds.of_all
    }

    fn forget(&mut self, at: Instant, age: Duration) {
        let is_young =
            |gateway: &ProcessActivity| gateway.heard().is_some_and(|heard| at.saturating_duration_since(heard) <= age);
        self.gateways.retain(|_, gateway| is_young(gateway));
        self.bytes = self.gateways.values().map(ProcessActivity::bytes).sum();
    }

    /// Follows the objects.
    pub(super) fn follow(&mut self, objects: KnownObjects) {
        self.gateways.values_mut().for_each(|gateway| gateway.retain_known(&objects));
        self.bytes = self.gateways.values().map(ProcessActivity::bytes).sum();
        self.known = Some(objects);
    }

    /// Forgets gateways that have gone.
    pub(super) fn forget_gone(&mut self, now: Instant) {
        self.forget(now, MEMORY);
    }

    /// Forgets the activity of a cluster whose object is another one now.
    pub(super) fn forget_cluster(&mut self, name: &str) {
        self.gateways.values_mut().for_each(|gateway| gateway.forget_cluster(name));
        self.bytes = self.gateways.values().map(ProcessActivity::bytes).sum();
    }

    /// Every gateway that is remembered, by node.
    pub(super) fn gateways(&self) -> impl Iterator<Item = (&str, &ProcessActivity)> {
        self.gateways.iter().map(|(node, gateway)| (node.as_str(), gateway))
    }

    /// The gateways whose last report counts.
    pub(super) fn reporting(&self, now: FleetTime) -> impl Iterator<Item = (&str, &ProcessActivity, Instant)> {
        self.gateways().filter_map(move |(node, gateway)| {
            let reported = gateway.reported().filter(|reported| now.since(*reported) <= MAX_AGE)?;
            Some((node, gateway, reported))
        })
    }

    /// The memory that it takes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The position of a reason among those that a filter has; gateways invent no others.
fn position(reason: &str) -> u8 {
    let position = Outcome::reasons().position(|known| known == reason).and_then(|at| u8::try_from(at).ok());
    position.unwrap_or(u8::MAX)
}

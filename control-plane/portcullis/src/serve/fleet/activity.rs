use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::fleet_time::FleetTime;
use super::process::{ProcessActivity, ProcessPart};
use crate::activity_report::{ClusterMessage, OTHER, ReportPart};

/// The age to which a report counts. Agents send one every 10 seconds at the least.
const MAX_AGE: Duration = Duration::from_secs(30);
/// How long a gateway without reports is remembered.
const MEMORY: Duration = Duration::from_secs(600);
/// Most gateways that are remembered.
const MAX_GATEWAYS: usize = 1_000;
/// Most bytes of the activity of all gateways; beyond them only the sums of each cluster are kept.
const MAX_BYTES: usize = 256 << 20;
/// Most reasons of refusals.
const MAX_REASONS: usize = 128;

/// The activity of all gateways, by node.
#[derive(Debug, Default)]
pub(super) struct GatewayActivity {
    gateways: BTreeMap<String, ProcessActivity>,
    reasons: Vec<String>,
    /// The names of the objects, as soon as there are any.
    known: Option<BTreeSet<String>>,
    bytes: usize,
}

impl GatewayActivity {
    /// Takes a part of a gateway's report that came at `at`.
    pub(super) fn take(&mut self, node: &str, report: &ReportPart, clusters: Vec<ClusterMessage>, at: Instant) {
        let reasons = report.reasons.iter().map(|reason| self.reason(reason)).collect();
        let &ReportPart { process, uptime_seconds, complete, more, .. } = report;
        let part = ProcessPart { uptime_seconds, complete, more, reasons, clusters };
        if !self.gateways.contains_key(node) && !self.has_room(at) {
            return;
        }
        let gateway = self.gateways.entry(node.to_owned()).or_insert_with(|| ProcessActivity::new(process));
        self.bytes = self.bytes.saturating_sub(gateway.bytes());
        if gateway.process != process {
            *gateway = ProcessActivity::new(process);
        }
        gateway.take(&part, self.known.as_ref(), self.bytes < MAX_BYTES, at);
        self.bytes += gateway.bytes();
    }

    /// The position of a reason; those beyond the bound share one.
    fn reason(&mut self, reason: &str) -> u8 {
        let position = self.reasons.iter().position(|known| known == reason).unwrap_or_else(|| {
            let reason = if self.reasons.len() + 1 < MAX_REASONS { reason } else { OTHER };
            if self.reasons.len() < MAX_REASONS {
                self.reasons.push(reason.to_owned());
            }
            self.reasons.len() - 1
        });
        u8::try_from(position).unwrap_or(u8::MAX)
    }

    /// The text of a reason.
    pub(super) fn reason_text(&self, position: u8) -> &str {
        self.reasons.get(usize::from(position)).map_or(OTHER, String::as_str)
    }

    /// Whether another gateway can be remembered. Those that report stay.
    fn has_room(&mut self, at: Instant) -> bool {
        if self.gateways.len() >= MAX_GATEWAYS {
            self.forget(at, MAX_AGE);
        }
        self.gateways.len() < MAX_GATEWAYS
    }

    fn forget(&mut self, at: Instant, age: Duration) {
        let is_young =
            |gateway: &ProcessActivity| gateway.heard().is_some_and(|heard| at.saturating_duration_since(heard) <= age);
        self.gateways.retain(|_, gateway| is_young(gateway));
        self.bytes = self.gateways.values().map(ProcessActivity::bytes).sum();
    }

    /// Follows the objects, and forgets gateways that have gone.
    pub(super) fn follow(&mut self, names: BTreeSet<String>, now: Instant) {
        self.forget(now, MEMORY);
        if self.known.as_ref() == Some(&names) {
            return;
        }
        self.gateways.values_mut().for_each(|gateway| gateway.retain_known(&names));
        self.bytes = self.gateways.values().map(ProcessActivity::bytes).sum();
        self.known = Some(names);
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

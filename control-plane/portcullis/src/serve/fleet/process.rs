use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::fleet_time::FleetTime;
use super::rates::Rates;
use super::samples::ClusterActivity;
use crate::activity_report::ClusterMessage;

/// The activity of one Envoy process, which begins anew with another process.
#[derive(Debug)]
pub(super) struct ProcessActivity {
    pub(super) process: u64,
    uptime_seconds: u64,
    /// The time of its last whole report.
    last: Option<Instant>,
    /// The time of the last part of a report.
    heard: Option<Instant>,
    /// Whether every cluster with a count was in a report, so that one that comes later had none before.
    is_complete: bool,
    /// Whether a part of the report that is coming leaves clusters out.
    is_partial: bool,
    /// Whether a cluster was left out for want of room.
    is_full: bool,
    /// A cluster that is not known is here without activity: its counts are not those since its object exists.
    clusters: BTreeMap<String, Option<Box<ClusterActivity>>>,
    bytes: usize,
    /// Most bytes.
    most: usize,
    /// Whether single counts are left out.
    sums_only: bool,
}

/// One part of a report, read.
pub(super) struct ProcessPart {
    pub(super) uptime_seconds: u64,
    pub(super) complete: bool,
    pub(super) partial: bool,
    pub(super) more: bool,
    /// The positions of the reasons of the report in the memory of reasons.
    pub(super) reasons: Vec<u8>,
    pub(super) clusters: Vec<ClusterMessage>,
}

impl ProcessActivity {
    pub(super) fn new(process: u64, most: usize, sums_only: bool) -> Self {
        Self {
            process,
            uptime_seconds: 0,
            last: None,
            heard: None,
            is_complete: false,
            is_partial: false,
            is_full: false,
            clusters: BTreeMap::new(),
            bytes: 0,
            most,
            sums_only,
        }
    }

    /// Takes a part of a report that came at `at`. Without room only the sums of clusters that are here already go on. `known` are
    /// the objects, as soon as there are any.
    pub(super) fn take(&mut self, part: &ProcessPart, known: Option<&KnownObjects>, has_room: bool, at: Instant) {
        self.uptime_seconds = part.uptime_seconds;
        self.heard = Some(at);
        for message in &part.clusters {
            self.take_cluster(message, part, known, has_room, at);
        }
        self.is_partial |= part.partial;
        if !part.more {
            // A cluster that was left out may have had counts before it comes.
            self.is_complete = (self.is_complete || part.complete) && !std::mem::take(&mut self.is_partial);
            self.last = Some(at);
            self.forget_old(at);
        }
    }

    fn take_cluster(
        &mut self,
        message: &ClusterMessage,
        part: &ProcessPart,
        known: Option<&KnownObjects>,
        has_room: bool,
        at: Instant,
    ) {
        let name = message.cluster.as_str();
        let is_known = is_known(name, known) && is_of_object(name, &message.object, known);
        if !self.clusters.contains_key(name) {
            if !has_room || self.bytes > self.most {
                self.is_full = true;
                return;
            }
            // Its counts began between the last report and this one.
            let began = self.last.filter(|_| self.is_complete && !self.is_full).map(ClusterActivity::idle);
            let began = is_known.then(|| Box::new(began.unwrap_or_default()));
            self.bytes += entry_bytes(name) + began.as_ref().map_or(0, |activity| activity.bytes());
            self.clusters.insert(name.to_owned(), began);
        }
        let Some(entry) = self.clusters.get_mut(name) else { return };
        let before = entry.as_ref().map_or(0, |activity| activity.bytes());
        if is_known {
            let detail = has_room && !self.sums_only && self.bytes <= self.most;
            let activity = entry.get_or_insert_default();
            activity.take(message, &part.reasons, detail, self.last, at);
        } else {
            *entry = None;
        }
        let now = entry.as_ref().map_or(0, |activity| activity.bytes());
        self.bytes = self.bytes.saturating_sub(before) + now;
    }

    /// Forgets the activity of clusters that are not known, and that of other objects of a known one's name.
    pub(super) fn retain_known(&mut self, known: &KnownObjects) {
        for (name, entry) in &mut self.clusters {
            let object = entry.as_ref().map_or("", |activity| activity.object());
            if !is_known(name, Some(known)) || !is_of_object(name, object, Some(known)) {
                self.bytes = self.bytes.saturating_sub(entry.take().map_or(0, |activity| activity.bytes()));
            }
        }
    }

    /// The same of clusters of these names.
    pub(super) fn retain_known_of(&mut self, names: &BTreeSet<&str>, known: &KnownObjects) {
        let is_other = |name: &str| {
            let object = self.cluster(name).map_or("", |activity| activity.object());
            !is_known(name, Some(known)) || !is_of_object(name, object, Some(known))
        };
        let gone: BTreeSet<&str> = names.iter().copied().filter(|name| is_other(name)).collect();
        self.forget_clusters(&gone, |_| false);
    }

    /// Forgets the activity of clusters of these names, as if they had not been known. `is_kept` says of which it stays. The cost is that
    /// of the fewer: the names, or the clusters that are here.
    pub(super) fn forget_clusters(&mut self, names: &BTreeSet<&str>, is_kept: impl Fn(&str) -> bool) {
        let Self { clusters, bytes, .. } = self;
        let mut forget = |entry: &mut Option<Box<ClusterActivity>>| {
            *bytes = bytes.saturating_sub(entry.take().map_or(0, |activity| activity.bytes()));
        };
        if names.len() < clusters.len() {
            for name in names.iter().filter(|name| !is_kept(name)) {
                clusters.get_mut(*name).into_iter().for_each(&mut forget);
            }
        } else {
            let named = clusters.iter_mut().filter(|(name, _)| names.contains(name.as_str()) && !is_kept(name));
            named.for_each(|(_, entry)| forget(entry));
        }
    }

    fn forget_old(&mut self, at: Instant) {
        for activity in self.clusters.values_mut().flatten() {
            let before = activity.bytes();
            activity.forget(at);
            self.bytes = (self.bytes + activity.bytes()).saturating_sub(before);
        }
    }

    /// The time of the last whole report.
    pub(super) fn reported(&self) -> Option<Instant> {
        self.last
    }

    /// The time of the last part of a report.
    pub(super) fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// Seconds since the process has loaded the filter.
    pub(super) fn uptime_seconds(&self, now: FleetTime) -> u64 {
        self.uptime_seconds.saturating_add(self.last.map_or(0, |last| now.since(last).as_secs()))
    }

    /// Rates and gauges by cluster, as of the last report.
    pub(super) fn rates(&self) -> impl Iterator<Item = (&str, Rates)> {
        let last = self.last;
        self.activities().filter_map(move |(name, activity)| Some((name, activity.rates(last?))))
    }

    /// The activity of a cluster.
    pub(super) fn cluster(&self, name: &str) -> Option<&ClusterActivity> {
        self.clusters.get(name)?.as_deref()
    }

    fn activities(&self) -> impl Iterator<Item = (&str, &ClusterActivity)> {
        self.clusters.iter().filter_map(|(name, activity)| Some((name.as_str(), activity.as_deref()?)))
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The cluster of requests that reach no object.
pub(super) const NO_CLUSTER: &str = "-";

/// The words by which filters know the objects, by name; empty where an object has none.
pub(super) type KnownObjects = BTreeMap<String, String>;

fn is_known(name: &str, known: Option<&KnownObjects>) -> bool {
    name == NO_CLUSTER || known.is_none_or(|known| known.contains_key(name))
}

/// Whether counts are those of the present object of their name, and not of an earlier one. A filter that is older names none.
fn is_of_object(name: &str, object: &str, known: Option<&KnownObjects>) -> bool {
    let word = known.and_then(|known| known.get(name)).filter(|word| !word.is_empty());
    object.is_empty() || word.is_none_or(|word| word == object)
}

/// The memory of a cluster's place in the map.
fn entry_bytes(name: &str) -> usize {
    name.len() + size_of::<String>() + size_of::<Option<Box<ClusterActivity>>>()
}

use std::collections::BTreeMap;
use std::time::Instant;

use portcullis_api::status::ShadowFacts;
use portcullis_filter_config::activity::ShadowDifference;

use super::Edition;
use crate::activity_report::ShadowMessage;

/// Most kinds of differences of one edition that are counted apart.
const MAX_KINDS: usize = 64;

/// The counts of one gateway's process.
#[derive(Debug)]
pub(super) struct ReportedShadow {
    at: Instant,
    judged: u64,
    differences: BTreeMap<ShadowDifference, u64>,
    others: u64,
    bytes: usize,
}

impl ReportedShadow {
    /// The counts of a report that came at `at`.
    pub(super) fn new(message: ShadowMessage, edition: &Edition, at: Instant) -> Self {
        let ShadowMessage { judged, differences, others, .. } = message;
        let mut kinds = BTreeMap::new();
        for one in differences {
            let (policy, shadow_policy, agreement) = (one.policy, one.shadow_policy, one.agreement);
            let kind = ShadowDifference { policy, shadow_policy, agreement, verb: one.verb, resource: one.resource };
            let count: &mut u64 = kinds.entry(kind).or_default();
            *count = count.saturating_add(one.count);
        }
        let bytes = entry_bytes::<Self>(edition) + kinds.keys().map(kind_bytes).sum::<usize>();
        Self { at, judged, differences: kinds, others, bytes }
    }

    /// The memory that it takes, with its edition.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The sums of all gateways since an edition is there.
#[derive(Debug)]
pub(super) struct ShadowSums {
    /// Gateways that have reported of late.
    gateways: usize,
    judged: u64,
    differences: BTreeMap<ShadowDifference, u64>,
    others: u64,
    changed: Option<Instant>,
    /// The owner whose memory it takes.
    owner: Option<String>,
    bytes: usize,
}

impl ShadowSums {
    /// Without a report. It takes of the memory of this owner.
    pub(super) fn new(edition: &Edition, owner: Option<&str>) -> Self {
        let (differences, bytes) = (BTreeMap::new(), entry_bytes::<Self>(edition));
        Self { gateways: 0, judged: 0, differences, others: 0, changed: None, owner: owner.map(str::to_owned), bytes }
    }

    /// The owner whose memory it takes.
    pub(super) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Adds a gateway's counts, without those that were added before. Counts that have sunk began anew.
    pub(super) fn add(&mut self, now: &ReportedShadow, before: Option<&ReportedShadow>) {
        self.changed = Some(now.at);
        let before = before.filter(|before| before.judged <= now.judged);
        let grown = |before: Option<u64>, now: u64| now.saturating_sub(before.unwrap_or_default());
        self.judged = self.judged.saturating_add(grown(before.map(|one| one.judged), now.judged));
        self.others = self.others.saturating_add(grown(before.map(|one| one.others), now.others));
        for (kind, count) in &now.differences {
            let before = before.and_then(|before| before.differences.get(kind).copied());
            self.add_kind(kind, grown(before, *count));
        }
    }

    fn add_kind(&mut self, kind: &ShadowDifference, count: u64) {
        if let Some(total) = self.differences.get_mut(kind) {
            *total = total.saturating_add(count);
        } else if count > 0 && self.differences.len() < MAX_KINDS {
            self.bytes += kind_bytes(kind);
            self.differences.insert(kind.clone(), count);
        } else {
            self.others = self.others.saturating_add(count);
        }
    }

    /// The bytes that a report adds at most.
    pub(super) fn growth(&self, shadow: &ReportedShadow) -> usize {
        let new = shadow.differences.keys().filter(|kind| !self.differences.contains_key(kind));
        new.take(MAX_KINDS.saturating_sub(self.differences.len())).map(kind_bytes).sum()
    }

    /// Counts another gateway.
    pub(super) fn join(&mut self) {
        self.gateways = self.gateways.saturating_add(1);
    }

    /// Counts no gateway. The sums stay.
    pub(super) fn leave_all(&mut self) {
        self.gateways = 0;
    }

    /// Counts a gateway no more. The sums stay.
    pub(super) fn leave(&mut self) {
        self.gateways = self.gateways.saturating_sub(1);
    }

    /// The time of the last report.
    pub(super) fn changed(&self) -> Option<Instant> {
        self.changed
    }

    /// The memory that it takes, with its edition.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn facts(&self) -> ShadowFacts {
        ShadowFacts {
            gateways: self.gateways,
            judged: self.judged,
            differences: self.differences.iter().map(|(kind, count)| (kind.clone(), *count)).collect(),
            others: self.others,
            is_partial: false,
        }
    }
}

/// The memory of an entry in a map by edition, with the places that a map keeps free.
fn entry_bytes<T>((name, generation): &Edition) -> usize {
    size_of::<(Edition, T)>() + 256 + name.len() + generation.len()
}

fn kind_bytes(kind: &ShadowDifference) -> usize {
    let ShadowDifference { policy, shadow_policy, agreement, verb, resource } = kind;
    let words = [policy, shadow_policy, agreement, verb, resource];
    size_of::<(ShadowDifference, u64)>() + words.into_iter().map(String::len).sum::<usize>()
}

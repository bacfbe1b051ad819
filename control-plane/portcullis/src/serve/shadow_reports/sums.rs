use std::collections::BTreeMap;
use std::time::Instant;

use portcullis_api::status::ShadowFacts;
use portcullis_filter_config::activity::ShadowDifference;

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
}

impl ReportedShadow {
    /// The counts of a report that came at `at`.
    pub(super) fn new(message: ShadowMessage, at: Instant) -> Self {
        let ShadowMessage { judged, differences, others, .. } = message;
        let mut kinds = BTreeMap::new();
        for one in differences {
            let (policy, shadow_policy, agreement) = (one.policy, one.shadow_policy, one.agreement);
            let kind = ShadowDifference { policy, shadow_policy, agreement, verb: one.verb, resource: one.resource };
            let count: &mut u64 = kinds.entry(kind).or_default();
            *count = count.saturating_add(one.count);
        }
        Self { at, judged, differences: kinds, others }
    }

    /// The memory that it takes, with its edition.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + 256 + self.differences.keys().map(kind_bytes).sum::<usize>()
    }
}

/// The sums of all gateways since an edition is there.
#[derive(Debug, Default)]
pub(super) struct ShadowSums {
    /// Gateways whose newest counts are known.
    gateways: usize,
    judged: u64,
    differences: BTreeMap<ShadowDifference, u64>,
    others: u64,
    changed: Option<Instant>,
    bytes: usize,
}

impl ShadowSums {
    /// Adds a gateway's counts, without those that were added before. Counts that have sunk began anew.
    pub(super) fn add(&mut self, now: &ReportedShadow, before: Option<&ReportedShadow>) {
        self.changed = Some(now.at);
        if before.is_none() {
            self.gateways = self.gateways.saturating_add(1);
        }
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

    /// A gateway's newest counts are forgotten, and not what they added.
    pub(super) fn leave(&mut self) {
        self.gateways = self.gateways.saturating_sub(1);
    }

    /// The time of the last report.
    pub(super) fn changed(&self) -> Option<Instant> {
        self.changed
    }

    /// The memory that it takes, with its edition.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + 256 + self.bytes
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

fn kind_bytes(kind: &ShadowDifference) -> usize {
    let ShadowDifference { policy, shadow_policy, agreement, verb, resource } = kind;
    let words = [policy, shadow_policy, agreement, verb, resource];
    size_of::<(ShadowDifference, u64)>() + words.into_iter().map(String::len).sum::<usize>()
}

//! Counts of what a shadow would have made of requests, for metrics and for the cluster's activity.

use portcullis_filter_config::activity::ShadowDifference;

use super::catalog::{MetricsSink, SHADOW};
use super::counters::{CountedKey, CounterKey, CounterTable};
use super::resource::ResourceLabels;
use super::shadow::{Agreement, ShadowKey};
use super::totals::ClusterTotals;
use super::verb::ReportedVerb;

/// Pairs of policies that the requests of one configuration are counted by where the shadow differs.
const MAX_PAIRS: usize = 256;
/// Kinds of requests of all pairs that are counted apart.
const MAX_KINDS: usize = 256;

/// The counts of one configuration.
#[derive(Debug, Default)]
pub(super) struct ShadowCounts {
    /// The edition of the shadow; `None` without one.
    pub(super) generation: Option<Box<str>>,
    pairs: CounterTable<ShadowKey>,
    /// Requests of a pair by what they ask for, in the place of the pair's own count.
    kinds: CounterTable<KindKey>,
}

/// A pair of policies, and what a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KindKey {
    pair: ShadowKey,
    /// [`ReportedVerb::code`]
    verb: u8,
    /// [`ResourceLabels::code`]
    resource: u16,
    /// Whether its client is one that is authenticated.
    is_known: bool,
}

/// The bit of the agreement's byte that says whether the client is known.
const KNOWN: u64 = 1 << 7;

impl CountedKey for KindKey {
    fn key(self) -> u64 {
        // A pair has its agreement in the lowest of three parts of 16 bits.
        let pair = self.pair.key();
        let agreement = (pair & 0xff) | if self.is_known { KNOWN } else { 0 };
        (pair >> 16) << 32 | u64::from(self.resource) << 16 | u64::from(self.verb) << 8 | agreement
    }

    #[allow(clippy::cast_possible_truncation, reason = "takes apart what `key` has put together")]
    fn of_key(key: u64) -> Self {
        let pair = ShadowKey::of_key((key >> 32) << 16 | (key & 0xff & !KNOWN));
        KindKey { pair, verb: (key >> 8) as u8, resource: (key >> 16) as u16, is_known: key & KNOWN != 0 }
    }

    fn rest(self) -> Self {
        KindKey { pair: self.pair.rest(), ..self }
    }
}

/// Counts of one key that are to be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingShadow {
    Pair(ShadowKey),
    Kind(KindKey),
}

impl ShadowCounts {
    /// Of a shadow of this edition, and nothing counted.
    pub(super) fn new(generation: Option<&str>) -> Self {
        ShadowCounts { generation: generation.map(Into::into), ..ShadowCounts::default() }
    }

    /// Counts a request. `admits` says whether the series of a pair that is new has room.
    pub(super) fn count(&self, pair: ShadowKey, request: CounterKey, admits: impl Fn(ShadowKey) -> bool) {
        if pair.agreement == Agreement::Same {
            self.pairs.count(pair, admits);
            return;
        }
        let CounterKey { verb, resource, is_known, .. } = request;
        let kind = KindKey { pair, verb, resource, is_known };
        if !self.kinds.count_known(kind) {
            self.count_new(kind, admits);
        }
    }

    #[cold]
    fn count_new(&self, kind: KindKey, admits: impl Fn(ShadowKey) -> bool) {
        // Clients that are not authenticated leave room for others.
        let part = |most: usize| if kind.is_known { most } else { most / 4 };
        let has_place = self.pairs.contains(kind.pair) || (self.pairs.len() < part(MAX_PAIRS) && admits(kind.pair));
        if !has_place {
            self.pairs.count(kind.pair.rest(), |_| true);
        } else if self.kinds.len() < part(MAX_KINDS) {
            self.pairs.keep(kind.pair);
            self.kinds.count(kind, |_| true);
        } else {
            self.pairs.count(kind.pair, |_| true);
        }
    }

    /// Keys under which something was counted that is not written yet.
    pub(super) fn pending(&self) -> impl Iterator<Item = PendingShadow> + use<> {
        let pairs = self.pairs.changed().into_iter().map(PendingShadow::Pair);
        pairs.chain(self.kinds.changed().into_iter().map(PendingShadow::Kind))
    }

    /// Writes what was counted under a key, and adds it to the cluster's activity.
    pub(super) fn write(&self, pending: PendingShadow, cluster: ShadowedCluster<'_>, sink: &mut impl MetricsSink) {
        let (pair, count, (verb, resource), is_known) = match pending {
            PendingShadow::Pair(pair) => (pair, self.pairs.take(pair), ("other", "other".to_owned()), false),
            PendingShadow::Kind(kind) => (kind.pair, self.kinds.take(kind), cluster.words(kind), kind.is_known),
        };
        if count == 0 {
            return;
        }
        let [policy, shadow_policy, agreement] = pair.labels(cluster.rest);
        sink.add(SHADOW, &[cluster.name, &policy, &shadow_policy, &agreement], count);
        if let (Some(totals), Some(generation)) = (cluster.totals, &self.generation) {
            let verb = verb.to_owned();
            let difference = ShadowDifference { policy, shadow_policy, agreement, verb, resource };
            let difference = (pair.agreement != Agreement::Same).then_some(difference);
            totals.lock().judged(generation, difference, is_known, count);
        }
    }
}

/// The cluster of the counts.
#[derive(Clone, Copy)]
pub(super) struct ShadowedCluster<'a> {
    pub(super) name: &'a str,
    pub(super) resources: &'a ResourceLabels,
    pub(super) totals: Option<&'a ClusterTotals>,
    /// The label of what has no room of its own.
    pub(super) rest: &'a str,
}

impl ShadowedCluster<'_> {
    /// Verb and resource.
    fn words(&self, kind: KindKey) -> (&'static str, String) {
        let (resource, subresource) = self.resources.labels(kind.resource);
        let resource = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
        (ReportedVerb::of_code(kind.verb).label(), resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::catalog::Metric;
    use crate::observe::servers::ServerLabels;
    use crate::observe::talkers::TalkerBudget;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    #[derive(Default)]
    struct WrittenSeries(BTreeMap<Vec<String>, u64>);

    impl MetricsSink for WrittenSeries {
        fn add(&mut self, metric: Metric, labels: &[&str], count: u64) {
            assert_eq!(metric.name, SHADOW.name);
            *self.0.entry(labels.iter().map(|label| (*label).to_owned()).collect()).or_default() += count;
        }

        fn set(&mut self, _metric: Metric, _labels: &[&str], _before: u64, _value: u64) {}
    }

    fn written(counts: &ShadowCounts) -> BTreeMap<Vec<String>, u64> {
        let (mut sink, resources) = (WrittenSeries::default(), ResourceLabels::of(&[]));
        let cluster = ShadowedCluster { name: "prod", resources: &resources, totals: None, rest: "(other)" };
        counts.pending().for_each(|pending| counts.write(pending, cluster, &mut sink));
        assert!(counts.pending().next().is_none());
        sink.0
    }

    fn request(verb: u8, resource: u16) -> CounterKey {
        CounterKey { verb, resource, is_known: true, ..CounterKey::default() }
    }

    #[test]
    fn kind_survives_its_number() {
        for agreement in Agreement::ALL.into_iter().filter(|one| *one != Agreement::Same) {
            for (policy, shadow_policy) in [(None, Some(0)), (Some(70_000), Some(2)), (Some(19_999), None)] {
                let pair = ShadowKey::new(policy, shadow_policy, agreement);
                for is_known in [false, true] {
                    let kind = KindKey { pair, verb: u8::MAX, resource: u16::MAX - 1, is_known };
                    assert_eq!(KindKey::of_key(kind.key()), kind);
                }
            }
        }
    }

    #[test]
    fn series_are_those_of_pairs_whatever_is_asked_for() {
        let counts = ShadowCounts::new(None);
        let refused = ShadowKey::new(Some(0), None, Agreement::WouldRefuse);
        for resource in 0..1_000 {
            counts.count(refused, request(2, resource), |_| true);
            counts.count(refused, request(2, resource), |_| true);
        }
        counts.count(ShadowKey::new(Some(0), Some(0), Agreement::Same), request(2, 1), |_| true);
        assert_eq!(counts.kinds.len(), MAX_KINDS);
        let series = |words: [&str; 4]| words.map(str::to_owned).to_vec();
        let expected = [(series(["prod", "-", "-", "same"]), 1), (series(["prod", "0", "-", "would_refuse"]), 2_000)];
        assert_eq!(written(&counts), BTreeMap::from(expected));
    }

    #[test]
    fn kinds_of_clients_without_a_name_leave_places_for_others() {
        let budget = Arc::new(TalkerBudget::default());
        let totals = ClusterTotals::new("prod", Arc::default(), &budget);
        let resources = ResourceLabels::of(&[]);
        totals.configure(&ServerLabels::default(), Vec::new(), None, Some("a"));
        let counts = ShadowCounts::new(Some("a"));
        let pair = |policy| ShadowKey::new(Some(policy), None, Agreement::WouldRefuse);
        for policy in 0..100 {
            counts.count(pair(policy), CounterKey { is_known: false, ..request(2, 1) }, |_| true);
        }
        (200..210).for_each(|policy| counts.count(pair(policy), request(2, 1), |_| true));
        let cluster = ShadowedCluster { name: "prod", resources: &resources, totals: Some(&totals), rest: "(other)" };
        // Whatever the order in which they are written.
        let mut pending: Vec<_> = counts.pending().collect();
        pending.sort_by_key(|one| matches!(one, PendingShadow::Kind(kind) if kind.pair.policy > 200));
        pending.into_iter().for_each(|one| counts.write(one, cluster, &mut WrittenSeries::default()));
        let activity = totals.activity(Duration::ZERO).unwrap().shadows.remove(0);
        let policies: Vec<_> = activity.differences.iter().map(|(kind, _)| kind.policy.parse().unwrap_or(0)).collect();
        assert_eq!(policies.iter().filter(|policy| **policy >= 200).count(), 10, "{policies:?}");
        assert_eq!((policies.len(), activity.judged, activity.others), (18, 110, 57));
    }

    #[test]
    fn pairs_without_room_count_together() {
        let counts = ShadowCounts::new(None);
        let pair = |policy| ShadowKey::new(Some(policy), None, Agreement::WouldRefuse);
        for policy in 0..1_000 {
            counts.count(pair(policy), request(1, 1), |_| true);
            counts.count(pair(policy), request(2, 1), |_| true);
        }
        let series = written(&counts);
        let rest: u64 = series.iter().filter(|(labels, _)| labels[1] == "(other)").map(|(_, count)| count).sum();
        assert_eq!((series.len(), series.values().sum::<u64>()), (MAX_PAIRS + 1, 2_000));
        assert_eq!(rest, 2_000 - 2 * MAX_PAIRS as u64, "a pair that has room keeps it");
        let none = ShadowCounts::new(None);
        none.count(pair(0), request(1, 1), |_| false);
        assert_eq!(written(&none).into_keys().map(|labels| labels[1].clone()).collect::<Vec<_>>(), ["(other)"]);
    }
}

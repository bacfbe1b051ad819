//! Durations of the gateway beside those of the kube-apiserver, by the bounds that both have.

use std::collections::BTreeMap;

use portcullis_e2e::{Labels, MetricsPage};

/// Quantiles that have to agree.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Fewer values than these say nothing about the last quantile.
const ENOUGH: u64 = 300;

/// The gateway's bounds, in microseconds; kube-apiserver has these and more.
const BOUNDS: [u64; 13] = [
    5_000,
    25_000,
    100_000,
    200_000,
    400_000,
    800_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    u64::MAX,
];

/// Verb, resource, subresource and scope.
type Place = [String; 4];

/// Values up to each bound, in the order of the bounds.
#[derive(Default)]
pub(super) struct Durations(BTreeMap<Place, BTreeMap<u64, u64>>);

/// The quantiles of one combination of labels, as bounds in microseconds: ours, kube-apiserver's.
pub(super) struct Compared {
    pub(super) place: Place,
    pub(super) count: u64,
    /// Distances in buckets, by quantile.
    pub(super) apart: Vec<usize>,
    told: Vec<String>,
}

impl Durations {
    /// The histograms on a page, of series that are wanted.
    pub(super) fn of(page: &MetricsPage, prefix: &str, is_wanted: impl Fn(&Labels) -> bool) -> Self {
        let mut all = Durations::default();
        for (labels, count) in page.series_of(&format!("{prefix}request_duration_seconds_bucket")) {
            let of = |name: &str| labels.get(name).cloned().unwrap_or_default();
            let bound = of("le").parse::<f64>().map_or(u64::MAX, |seconds| (seconds * 1e6).round() as u64);
            if is_wanted(labels) {
                let place = ["verb", "resource", "subresource", "scope"].map(of);
                *all.0.entry(place).or_default().entry(bound).or_default() += count;
            }
        }
        all
    }

    /// Values that came after an earlier page.
    pub(super) fn since(mut self, before: &Durations) -> Self {
        for (place, buckets) in &mut self.0 {
            let earlier = before.0.get(place);
            buckets.iter_mut().for_each(|(bound, count)| {
                *count -= earlier.and_then(|earlier| earlier.get(bound)).copied().unwrap_or_default();
            });
        }
        self.0.retain(|_, buckets| buckets.values().any(|count| *count > 0));
        self
    }

    /// Ours beside kube-apiserver's. A bound without a value is missing from our page.
    pub(super) fn beside(&self, theirs: &Durations) -> Vec<Compared> {
        let filled = |buckets: &BTreeMap<u64, u64>| -> Vec<u64> {
            let up_to = |bound: &u64| buckets.range(..=bound).next_back().map_or(0, |(_, count)| *count);
            BOUNDS.iter().map(up_to).collect()
        };
        let both = self.0.iter().filter_map(|(place, ours)| Some((place, ours, theirs.0.get(place)?)));
        let compared = both.map(|(place, ours, theirs)| {
            let (ours, theirs) = (filled(ours), filled(theirs));
            let count = ours.last().copied().unwrap_or_default();
            let quantiles = QUANTILES.map(|part| (bucket(&ours, part), bucket(&theirs, part)));
            let apart = quantiles.iter().map(|(one, other)| one.abs_diff(*other)).collect();
            let name = |index: usize| match BOUNDS[index] {
                u64::MAX => "+Inf".to_owned(),
                bound => format!("{}", bound as f64 / 1e6),
            };
            let told = quantiles.iter().map(|(one, other)| format!("{}/{}", name(*one), name(*other))).collect();
            Compared { place: place.clone(), count, apart, told }
        });
        compared.collect()
    }
}

impl Compared {
    /// Whether all quantiles that say something are in the same bucket or the next one.
    pub(super) fn agrees(&self) -> bool {
        let judged = if self.count < ENOUGH { 1 } else { QUANTILES.len() };
        self.apart.iter().take(judged).all(|buckets| *buckets <= 1)
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [verb, resource, subresource, scope] = &self.place;
        write!(f, "{:>7} {verb} {resource} {subresource} {scope}: {}", self.count, self.told.join(" "))
    }
}

/// The bucket of a quantile.
fn bucket(cumulative: &[u64], part: f64) -> usize {
    let all = cumulative.last().copied().unwrap_or_default();
    let wanted = (all as f64 * part).ceil() as u64;
    cumulative.iter().position(|count| *count >= wanted).unwrap_or(cumulative.len() - 1)
}

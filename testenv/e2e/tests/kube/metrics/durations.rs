//! Durations of the gateway beside those of the kube-apiserver that answered, and beside the time that the client took.

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_e2e::{Labels, MetricsPage};

/// Verb, resource, subresource and scope.
type Place = [String; 4];

/// Values up to each bound in microseconds.
#[derive(Default)]
pub(super) struct Durations(BTreeMap<Place, BTreeMap<u64, u64>>);

impl Durations {
    /// The histograms on a page, of series that are wanted.
    pub(super) fn of(page: &MetricsPage, prefix: &str, is_wanted: impl Fn(&Labels) -> bool) -> Self {
        let mut all = Durations::default();
        let place = |labels: &Labels| {
            ["verb", "resource", "subresource", "scope"].map(|name| labels.get(name).cloned().unwrap_or_default())
        };
        for (labels, count) in page.series_of(&format!("{prefix}request_duration_seconds_bucket")) {
            if !is_wanted(labels) {
                continue;
            }
            let bound = labels.get("le").and_then(|bound| bound.parse::<f64>().ok());
            let bound = bound.filter(|seconds| seconds.is_finite()).map_or(u64::MAX, |one| (one * 1e6).round() as u64);
            *all.0.entry(place(labels)).or_default().entry(bound).or_default() += count;
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

    /// The combinations of labels that both have; fails with those in which more of the gateway's requests than of the server's ended
    /// below a bound: a request passes the gateway for at least as long as the server works on it.
    pub(super) fn none_shorter(&self, servers: &Durations) -> Result<usize, Vec<String>> {
        let both = self.0.iter().filter_map(|(place, ours)| Some((place, ours, servers.0.get(place)?)));
        let both: Vec<_> = both.collect();
        let up_to = |buckets: &BTreeMap<u64, u64>, bound: u64| {
            buckets.range(..=bound).next_back().map_or(0, |(_, count)| *count)
        };
        // The server has the gateway's bounds and more.
        let shorter = both.iter().flat_map(|(place, ours, servers)| {
            ours.iter().filter_map(move |(bound, count)| {
                let server = up_to(servers, *bound);
                (*count > server).then(|| format!("{place:?}: {count} below {bound} µs, {server} at the server"))
            })
        });
        let shorter: Vec<_> = shorter.collect();
        if shorter.is_empty() { Ok(both.len()) } else { Err(shorter) }
    }

    /// The sum of all, if each were just beyond the bound below its own.
    pub(super) fn least(&self) -> Duration {
        let of_place = |buckets: &BTreeMap<u64, u64>| {
            let below = std::iter::once((&0, &0)).chain(buckets);
            let values = below.zip(buckets).map(|((low, before), (_, count))| low * (count - before));
            values.sum::<u64>()
        };
        Duration::from_micros(self.0.values().map(of_place).sum())
    }
}

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{OneLabel, add, catalog, number};

/// Counts of the sources of discovered servers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiscoveryCounts {
    pub(crate) current: usize,
    pub(crate) empty: usize,
    pub(crate) unavailable: usize,
    pub(crate) servers: usize,
    /// Sources whose servers are others than before.
    pub(crate) changes: usize,
}

#[derive(Debug, Default)]
pub(super) struct DiscoveryMetrics {
    sources: Family<OneLabel, Gauge>,
    servers: Gauge,
    changes: Counter,
}

impl DiscoveryMetrics {
    pub(super) fn register(&self, page: &mut Registry) {
        add(page, &catalog::DISCOVERY_SOURCES, self.sources.clone());
        add(page, &catalog::DISCOVERED_SERVERS, self.servers.clone());
        add(page, &catalog::DISCOVERY_CHANGES, self.changes.clone());
        self.count(DiscoveryCounts::default());
    }

    pub(super) fn count(&self, counts: DiscoveryCounts) {
        let of = [counts.current, counts.empty, counts.unavailable];
        for (state, count) in catalog::DISCOVERY_STATES.iter().zip(of) {
            self.sources.get_or_create(&[("state", *state)]).set(number(count));
        }
        self.servers.set(number(counts.servers));
        self.changes.inc_by(u64::try_from(counts.changes).unwrap_or(u64::MAX));
    }
}

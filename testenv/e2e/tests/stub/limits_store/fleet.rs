//! Gateways that hold parts of one limit, at control planes that share a store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portcullis_filter_config::limits::{LEASE, PartUse};
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};
use portcullis_harness::wait;
use portcullis_limits_store::{ClusterExchange, LimitStore, NodeOwners, ProcessReport, StoreFiles};
use tokio::runtime::Runtime;

use super::SOON;

/// Requests in flight of all gateways.
pub(super) const MAX: u32 = 24;
const GATEWAYS: u64 = 6;
const CLUSTER: &str = "lab/-/c.example.com";

/// Leases: units of each gateway, and until when.
type Leases = Arc<Mutex<BTreeMap<u64, (u32, Instant)>>>;

/// The gateways. They end with this value.
pub(super) struct Fleet {
    pub(super) stores: Vec<Arc<LimitStore>>,
    leases: Leases,
    /// The most units at a time.
    peak: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    runtime: Runtime,
}

impl Fleet {
    /// Gateways at control planes that use these addresses.
    pub(super) fn start(addresses: &[&str], files: &StoreFiles) -> Self {
        Self::start_in(addresses, files, |_| true, Duration::MAX)
    }

    /// Gateways that report at least so often. The first of them is at the last control plane alone, and no other is there.
    pub(super) fn start_apart(addresses: &[&str], pause: Duration) -> Self {
        Self::start_in(addresses, &StoreFiles::default(), |(number, is_last)| (number == 0) == is_last, pause)
    }

    /// Whether the gateway of that number is at the last control plane, or at the others, is what `is_at` says.
    fn start_in(addresses: &[&str], files: &StoreFiles, is_at: impl Fn((u64, bool)) -> bool, pause: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let within = runtime.enter();
        let store = |address: &&str| {
            let (address, prefix) = (address.parse().unwrap(), "portcullis".to_owned());
            Arc::new(LimitStore::start(address, files.clone(), prefix, NodeOwners::default()))
        };
        let stores: Vec<_> = addresses.iter().map(store).collect();
        drop(within);
        let fleet = Fleet { stores, leases: Leases::default(), peak: Arc::default(), stop: Arc::default(), runtime };
        for number in 0..GATEWAYS {
            let stores = fleet.stores.iter().enumerate();
            let stores = stores.filter(|(at, _)| is_at((number, at + 1 == addresses.len())));
            let stores: Vec<_> = stores.map(|(_, store)| Arc::clone(store)).collect();
            let (leases, stop) = (Arc::clone(&fleet.leases), Arc::clone(&fleet.stop));
            fleet.runtime.spawn(async move {
                let mut gateway = Gateway { number, reports: 0, leases, pause };
                while !stop.load(Ordering::Relaxed) {
                    gateway.report(&stores).await;
                }
            });
        }
        let (leases, peak, stop) = (Arc::clone(&fleet.leases), Arc::clone(&fleet.peak), Arc::clone(&fleet.stop));
        fleet.runtime.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                peak.fetch_max(units(&leases), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        fleet
    }

    /// Waits until the gateways have the whole limit, and no more. Returns how long that took.
    pub(super) fn wait_whole(&self) -> Duration {
        let start = Instant::now();
        wait::until("gateways have all units", SOON, || (units(&self.leases) == MAX).then_some(())).unwrap();
        self.assert_bound();
        start.elapsed()
    }

    /// Whether the first gateway has a unit.
    pub(super) fn has_first(&self) -> bool {
        let leases = self.leases.lock().unwrap();
        leases.get(&0).is_some_and(|(units, until)| *units > 0 && Instant::now() < *until)
    }

    /// Waits until no gateway has a unit.
    pub(super) fn wait_without(&self) {
        wait::until("leases have ended", SOON, || (units(&self.leases) == 0).then_some(())).unwrap();
    }

    pub(super) fn assert_bound(&self) {
        let peak = self.peak.load(Ordering::Relaxed);
        assert!(peak <= MAX, "{peak} units at a time");
    }

    /// Whether each control plane's last question was answered.
    pub(super) fn are_up(&self) -> bool {
        self.stores.iter().all(|store| store.statistics().is_up.load(Ordering::Relaxed))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn units(leases: &Leases) -> u32 {
    let now = Instant::now();
    leases.lock().unwrap().values().filter(|(_, until)| now < *until).map(|(units, _)| units).sum()
}

struct Gateway {
    number: u64,
    reports: u64,
    leases: Leases,
    /// The longest time between two reports.
    pause: Duration,
}

impl Gateway {
    /// Reports to every control plane at once, as an agent does, and has what the first of them gives.
    async fn report(&mut self, stores: &[Arc<LimitStore>]) {
        self.reports += 1;
        let start = Instant::now();
        let lease = self.leases.lock().unwrap().get(&self.number).copied().filter(|(_, until)| start < *until);
        let held = lease.map_or(0, |(units, _)| units);
        let asked = stores.iter().map(|store| {
            let (store, report) = (Arc::clone(store), self.message(held));
            tokio::spawn(async move { store.exchange(report).await })
        });
        let mut next = Duration::from_millis(100);
        for answer in asked.collect::<Vec<_>>() {
            let answer = answer.await.unwrap().and_then(|clusters| clusters.first()?.first().copied().flatten());
            let Some(answer) = answer else { continue };
            next = answer.next;
            // A lease that has ended since the report is not renewed.
            let is_over = lease.is_some_and(|(_, until)| Instant::now() >= until);
            if let Some(part) = answer.part.filter(|_| !is_over) {
                self.leases.lock().unwrap().insert(self.number, (part.quota, start + LEASE));
            }
        }
        tokio::time::sleep(next.min(self.pause)).await;
    }

    fn message(&self, held: u32) -> ProcessReport {
        // The gateways that want more take turns.
        let wanted = if (self.reports / 8 + self.number).is_multiple_of(3) { MAX } else { 2 };
        let used = PartUse { held, wanted, ..PartUse::default() };
        let limit =
            GlobalLimit { limit: FlowControlLimit::MaxRequestsInflight(MAX), strategy: GlobalStrategy::Allocate };
        let limits = Arc::new(BTreeMap::from([("shared".to_owned(), limit)]));
        let uses = vec![("shared".to_owned(), used)];
        let clusters = vec![ClusterExchange { name: CLUSTER.to_owned(), limits, uses }];
        ProcessReport { node: format!("envoy-{}", self.number), process: 1, number: self.reports, clusters, bytes: 100 }
    }
}

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::activity::GatewayActivity;
use super::super::counts::BUCKETS;
use super::super::keys::{Key, is_error};
use super::super::rates::{Rates, quantile};
use super::super::view::RATE_WINDOW;
use super::{Agent, Clock, activity, cluster, take};
use crate::activity_report::ActivityPage;

/// The rates of a cluster at one gateway.
pub(super) fn rates(memory: &GatewayActivity, clock: Clock, seconds: u64, node: &str, name: &str) -> Rates {
    let moment = clock.moment(seconds);
    let (_, gateway, _) = memory.reporting(moment).find(|(one, _, _)| *one == node).unwrap();
    gateway.rates().find(|(one, _)| *one == name).map(|(_, rates)| rates).unwrap_or_default()
}

#[test]
fn rate_is_the_average_of_the_window() {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    for report in 0..20 {
        let seconds = report * 5;
        // 10 in a second, of which 1 is an error.
        let counts = cluster("a", &[("s1", 1_000_000 + seconds * 6, 0), ("s2", seconds * 3, seconds)]);
        take(&mut memory, "n", agent.parts(&activity(1, vec![counts])), clock.at(seconds));
        let rates = rates(&memory, clock, seconds, "n", "a");
        let (answers, errors) = if report == 0 { (0.0, 0.0) } else { (10.0, 1.0) };
        assert!((rates.answers - answers).abs() < 1e-9, "{report}: {rates:?}");
        assert!((rates.errors - errors).abs() < 1e-9, "{report}: {rates:?}");
    }
}

#[test]
fn rate_ends_with_the_window_after_the_last_request() {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    let mut seen = Vec::new();
    for seconds in (0..=60).step_by(5) {
        // 300 requests in the second interval.
        let counts = cluster("a", &[("s", if seconds < 10 { 50 } else { 350 }, 0)]);
        take(&mut memory, "n", agent.parts(&activity(1, vec![counts])), clock.at(seconds));
        seen.push(rates(&memory, clock, seconds, "n", "a").answers);
    }
    assert_eq!(seen[..3], [0.0, 0.0, 30.0]);
    let end = seen.iter().rposition(|rate| *rate > 0.0).unwrap() * 5;
    assert!((35..=50).contains(&end), "{seen:?}");
}

#[test]
fn cluster_that_appears_later_began_at_zero() {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    let old = || cluster("old", &[("s", 1_000, 0)]);
    take(&mut memory, "n", agent.parts(&activity(1, vec![old()])), clock.at(0));
    let new = cluster("new", &[("s", 50, 0)]);
    take(&mut memory, "n", agent.parts(&activity(1, vec![old(), new])), clock.at(5));
    assert_eq!(rates(&memory, clock, 5, "n", "new").answers, 10.0);
    assert_eq!(rates(&memory, clock, 5, "n", "old").answers, 0.0);
}

/// Its counts began at an unknown time: as one that is new it would have a peak.
#[test]
fn cluster_that_reports_left_out_has_no_peak() {
    let (clock, mut memory) = (Clock::new(), GatewayActivity::default());
    let page = |clusters| ActivityPage::default().succeeded_by(&activity(1, clusters));
    let (old, late) = (|| cluster("a-old", &[("s", 1_000, 0)]), |count| cluster("late", &[("s", count, 0)]));
    take(&mut memory, "n", page(vec![old()]).parts(None), clock.at(0));
    // There is room for one of two.
    let within = |most| page(vec![old(), late(1_000)]).parts_within(None, most);
    let (parts, _) = (0..).map(within).find(|(_, left_out)| *left_out == 1).unwrap();
    take(&mut memory, "n", parts, clock.at(5));
    take(&mut memory, "n", page(vec![old(), late(1_050)]).parts(None), clock.at(10));
    for name in ["a-old", "late"] {
        assert_eq!(rates(&memory, clock, 10, "n", name).answers, 0.0, "{name}");
    }
    take(&mut memory, "n", page(vec![old(), late(1_100), cluster("new", &[("s", 50, 0)])]).parts(None), clock.at(15));
    assert!(rates(&memory, clock, 15, "n", "new").answers > 0.0, "the report before was whole");
}

#[test]
fn silent_gateway_has_no_numbers() {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    take(&mut memory, "n", agent.parts(&activity(1, vec![cluster("a", &[("s", 1, 0)])])), clock.at(0));
    assert_eq!(memory.reporting(clock.moment(30)).count(), 1);
    assert_eq!(memory.reporting(clock.moment(31)).count(), 0);
    assert_eq!(memory.gateways().count(), 1, "it is not forgotten");
}

#[test]
fn quantile_is_interpolated_within_a_bucket() {
    let mut buckets = [0.0; BUCKETS];
    assert_eq!(quantile(&buckets, 0.5), None);
    buckets[1] = 100.0;
    assert_eq!(quantile(&buckets, 0.5), Some(15.0), "between 5 and 25 ms");
    buckets[3] = 100.0;
    assert_eq!(quantile(&buckets, 0.5), Some(25.0));
    assert_eq!(quantile(&buckets, 0.75), Some(150.0));
    buckets[12] = 200.0;
    assert_eq!(quantile(&buckets, 0.99), Some(60_000.0), "above all bounds is the last bound");
}

/// A server that comes back begins at 0: others go on.
#[test]
fn rate_of_a_cluster_goes_on_when_a_server_is_replaced() {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    for report in 0..12 {
        let seconds = report * 5;
        let gone = if report < 6 { 1_000_000 } else { 0 };
        let servers = [("s1", gone + seconds * 6, 0), ("s2", seconds * 4, 0)];
        let servers = if report == 6 { &servers[1..] } else { &servers[..] };
        take(&mut memory, "n", agent.parts(&activity(1, vec![cluster("a", servers)])), clock.at(seconds));
        let rates = rates(&memory, clock, seconds, "n", "a");
        let least = if report == 0 { 0.0 } else { 4.0 };
        assert!((least..=20.0).contains(&rates.answers), "{report}: {rates:?}");
    }
}

/// One interval of a gateway: how long it is, what happens before its report, and the requests of each cluster and server.
#[derive(Clone, Debug)]
struct Interval {
    seconds: u64,
    event: Event,
    requests: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    None,
    /// Envoy starts anew.
    Restart,
    /// The stream is opened anew.
    Reconnect,
    /// The control plane starts anew.
    Forget,
    /// The report is lost.
    Lost,
    /// The first server of each cluster is taken away and comes back: it begins at 0.
    Replaced,
}

/// Most requests of a server in an interval.
const MOST: u64 = 1_000;
const CLUSTERS: usize = 3;
const SERVERS: usize = 2;

fn interval() -> impl Strategy<Value = Interval> {
    let event = prop_oneof![
        12 => Just(Event::None),
        1 => Just(Event::Restart),
        1 => Just(Event::Reconnect),
        1 => Just(Event::Forget),
        1 => Just(Event::Lost),
        1 => Just(Event::Replaced),
    ];
    let requests = prop_oneof![2 => Just((0, 0)), 3 => (0..=MOST, 0..=MOST / 10)];
    let requests = prop::collection::vec(requests, CLUSTERS * SERVERS);
    (5..=10_u64, event, requests).prop_map(|(seconds, event, requests)| Interval { seconds, event, requests })
}

/// A gateway as it is: counts of each cluster and server.
struct Gateway {
    process: u64,
    counts: Vec<(u64, u64)>,
    agent: Agent,
}

impl Gateway {
    fn pass(&mut self, interval: &Interval) {
        if interval.event == Event::Restart {
            self.process += 1;
            self.counts.fill((0, 0));
        }
        if interval.event == Event::Replaced {
            self.counts.iter_mut().step_by(SERVERS).for_each(|count| *count = (0, 0));
        }
        let requests = self.counts.iter_mut().zip(&interval.requests);
        requests.for_each(|(count, one)| *count = (count.0 + one.0, count.1 + one.1));
    }

    fn parts(&mut self) -> Vec<bytes::Bytes> {
        let clusters = self.counts.chunks(SERVERS).enumerate().map(|(number, counts)| {
            let servers: Vec<_> = counts.iter().zip(["s0", "s1"]).map(|(one, name)| (name, one.0, one.1)).collect();
            cluster(&format!("c{number}"), &servers)
        });
        // The filter names no cluster that has no count.
        let used = clusters.filter(|one| one.policies.iter().any(|policy| policy.forwarded > 0));
        self.agent.parts(&activity(self.process, used.collect()))
    }
}

/// The sums of single counts: of answers, of errors and of forwarded requests.
fn sums(memory: &GatewayActivity, clock: Clock, seconds: u64, name: &str) -> (f64, f64, f64) {
    let mut sums = (0.0, 0.0, 0.0);
    for (_, gateway, reported) in memory.reporting(clock.moment(seconds)) {
        for (key, rate) in gateway.cluster(name).into_iter().flat_map(|one| one.each(reported)) {
            assert!(rate >= 0.0, "{key:?}");
            match key {
                Key::Answers(server, kind) => {
                    sums.0 += rate;
                    sums.1 += if is_error(server, kind) { rate } else { 0.0 };
                }
                Key::Forwarded(_) => sums.2 += rate,
                _ => {}
            }
        }
    }
    sums
}

fn check(intervals: &[Interval]) -> Result<(), TestCaseError> {
    let (clock, mut memory) = (Clock::new(), GatewayActivity::default());
    // It has run for long when the control plane begins to listen.
    let mut gateway = Gateway {
        process: 1,
        counts: vec![(u64::from(u32::MAX) - 500, 7); CLUSTERS * SERVERS],
        agent: Agent::default(),
    };
    let (mut seconds, mut replaced) = (0, 0);
    for interval in intervals {
        seconds += interval.seconds;
        gateway.pass(interval);
        // A replaced server is seen when it has counts again, and a cluster without any is not named before.
        let is_away = replaced > 0 && gateway.counts.iter().step_by(SERVERS).any(|count| *count == (0, 0));
        replaced = if interval.event == Event::Replaced || is_away { seconds } else { replaced };
        match interval.event {
            Event::Lost => continue,
            Event::Forget => {
                memory = GatewayActivity::default();
                gateway.agent.reconnect();
            }
            Event::Reconnect => gateway.agent.reconnect(),
            Event::None | Event::Restart | Event::Replaced => {}
        }
        let parts = gateway.parts();
        take(&mut memory, "n", parts, clock.at(seconds));
        let mut of_gateway: BTreeMap<String, Rates> = BTreeMap::new();
        for (_, one, _) in memory.reporting(clock.moment(seconds)) {
            of_gateway.extend(one.rates().map(|(name, rates)| (name.to_owned(), rates)));
        }
        for (name, rates) in of_gateway {
            let most = (MOST + MOST / 10) as f64 * SERVERS as f64 / 5.0;
            prop_assert!((0.0..=most).contains(&rates.answers), "no spike: {} {rates:?}", interval.event as u8);
            prop_assert!((0.0..=rates.answers).contains(&rates.errors));
            // A server that came back with more answers of one kind than it had shows as growth of these alone.
            let is_exact = replaced + 60 < seconds || replaced == 0;
            prop_assert!(!is_exact || (rates.latency.iter().sum::<f64>() - rates.answers).abs() < 1e-6);
            let (answers, errors, forwarded) = sums(&memory, clock, seconds, &name);
            prop_assert!((answers - rates.answers).abs() < 1e-6, "{answers} {rates:?}");
            prop_assert!((errors - rates.errors).abs() < 1e-6);
            // A policy's count goes on when a server is replaced.
            prop_assert!(forwarded <= most);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn rates_are_never_negative_agree_and_have_no_spikes(intervals in prop::collection::vec(interval(), 1..40)) {
        check(&intervals)?;
    }
}

#[test]
fn window_is_longer_than_the_time_between_two_reports() {
    assert!(RATE_WINDOW.as_secs() >= 3 * 10);
}

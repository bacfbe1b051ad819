use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use portcullis_filter_config::activity::{Activity, ClusterActivity, Latency, PolicyActivity, ServerActivity};

use super::super::activity::GatewayActivity;
use super::super::cluster_view::cluster_view;
use super::super::fleet_view::{fleet_view, rates_by_cluster};
use super::super::history::Histories;
use super::super::inputs::Inputs;
use super::super::served_objects::ServedObjects;
use super::super::transitions::Transitions;
use super::{Agent, Clock, object, status, take};

/// Policies of a cluster.
const POLICIES: usize = 100;

/// A process in which each policy of each cluster gets requests, one in five of them with refusals.
fn busy(count: usize, turn: u64) -> Activity {
    let policy = |number: usize| PolicyActivity {
        policy: number.to_string(),
        forwarded: turn * 10 + 1,
        refused: if number.is_multiple_of(5) { vec![("too_many_requests".to_owned(), turn + 1)] } else { Vec::new() },
    };
    let server = |number: usize| ServerActivity {
        server: format!("10.0.0.{number}:6443"),
        answers: [0, 0, turn * 300 + 1, 0, turn * 30 + 1, turn],
        latency: Latency {
            buckets: [turn * 200 + 1, turn * 100 + 1, turn * 30, turn, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            sum: 1,
        },
        in_flight: 0,
    };
    let one = |number: usize| ClusterActivity {
        cluster: format!("cluster-{number:04}.example.com"),
        policies: (0..POLICIES).map(policy).collect(),
        servers: (1..=3).map(server).collect(),
        running: 5,
        ..ClusterActivity::default()
    };
    Activity { process: 1, uptime_seconds: turn * 15, clusters: (0..count).map(one).collect() }
}

/// The processor time of this thread: others use the machine, too.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap())
}

/// The memory of this process.
fn resident_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    (pages.unwrap() * 4_096) >> 20
}

/// Prints what a fleet takes. It judges memory; nothing is said about time.
fn fleet_of(clusters: usize, gateways: usize, most_mib: usize) {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    let before = resident_mib();
    let (mut took, mut bytes, mut reports) = (Duration::ZERO, 0, 0);
    for turn in 0..4 {
        let parts = agent.parts(&busy(clusters, turn));
        bytes = parts.iter().map(Bytes::len).sum::<usize>();
        for gateway in 0..gateways {
            let begin = cpu();
            take(&mut memory, &format!("gateway-{gateway:02}"), parts.clone(), clock.at(turn * 15));
            took += cpu() - begin;
            reports += 1;
        }
    }
    let objects: Vec<_> =
        (0..clusters).map(|number| object(&format!("cluster-{number:04}.example.com"), &[])).collect();
    let (status, served) = (status(objects), ServedObjects::default());
    let inputs = Inputs { status: &status, served: &served, activity: &memory, now: clock.moment(46) };
    let begin = cpu();
    let view = fleet_view(inputs);
    let fleet_took = cpu() - begin;
    let begin = cpu();
    let json = serde_json::to_vec(&view).unwrap().len();
    let json_took = cpu() - begin;
    let begin = cpu();
    let one = cluster_view(inputs, "cluster-0005.example.com", &Histories::default(), &Transitions::default()).unwrap();
    let cluster_took = cpu() - begin;
    let mib = memory.bytes() >> 20;
    println!(
        "{clusters} clusters of {POLICIES} policies at {gateways} gateways, each of them busy: a report of {} KiB is taken in \
         {:?}; {mib} MiB are kept, the process has grown by {} MiB; the fleet is made in {fleet_took:?}, its {} KiB of JSON in {json_took:?}; a cluster in {cluster_took:?}",
        bytes >> 10,
        took / reports,
        // Other tests of this process give memory back meanwhile.
        resident_mib().saturating_sub(before),
        json >> 10,
    );
    assert!(mib <= most_mib, "{mib} MiB");
    assert_eq!((view.clusters.len(), view.gateways.len(), one.policies.len()), (clusters, gateways, POLICIES));
    let expected = gateways as f64 * 3.0 * 331.0 / 15.0;
    let found = one.summary.numbers.requests_per_second;
    assert!((found - expected).abs() < expected / 100.0, "{found} {expected}");
    let sums: BTreeMap<_, _> = rates_by_cluster(&inputs);
    assert_eq!(sums.len(), clusters);
}

#[test]
fn fleet_stays_within_its_memory() {
    fleet_of(100, 10, 4);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn large_fleet_stays_within_its_memory() {
    fleet_of(1_000, 50, 150);
}

use bytes::Bytes;
use portcullis_filter_config::activity::{ClusterActivity, ServerActivity};

use super::super::super::report_origin::ReportOrigin;
use super::super::activity::{Bounds, GatewayActivity};
use super::super::cluster_view::cluster_view;
use super::super::fleet_view::fleet_view;
use super::super::history::Histories;
use super::super::inputs::Inputs;
use super::super::keys::Key;
use super::super::process::KnownObjects;
use super::super::process::{ProcessActivity, ProcessPart};
use super::super::served_objects::ServedObjects;
use super::super::transitions::Transitions;
use super::super::view::{ClusterView, FleetView};
use super::{Agent, Clock, activity, cluster, object, status, take};
use crate::activity_report::{ActivityPage, ClusterMessage, LimitMessage, PolicyMessage, ReportPart, ServerMessage};
use proptest::prelude::*;

/// A report of so many clusters that each takes much room: many servers, of long names.
fn loud(clusters: usize, turn: u64) -> Vec<Bytes> {
    let server = |number: usize| ServerActivity {
        server: format!("{number:03}{}", "x".repeat(240)),
        answers: [0, 0, turn + 1, 0, 0, 0],
        ..ServerActivity::default()
    };
    let servers: Vec<_> = (0..60).map(server).collect();
    let one = |number: usize| ClusterActivity {
        cluster: format!("{number:06}{}", "x".repeat(200)),
        servers: servers.clone(),
        ..ClusterActivity::default()
    };
    Agent::default().parts(&activity(1, (0..clusters).map(one).collect()))
}

/// An eighth of the room that there is, so that it is filled soon.
fn small() -> GatewayActivity {
    let Bounds { of_one, of_all, reserve, little, instances, sums_only } = Bounds::default();
    let (of_one, of_all, reserve, little) = (of_one / 8, of_all / 8, reserve / 8, little / 8);
    GatewayActivity::within(Bounds { of_one, of_all, reserve, little, instances, sums_only })
}

#[test]
fn one_gateway_takes_no_more_than_its_room() {
    let (clock, mut memory) = (Clock::new(), small());
    for turn in 0..2 {
        take(&mut memory, "loud", loud(450, turn), clock.at(turn * 15));
    }
    let mib = memory.bytes() >> 20;
    assert!((6..=7).contains(&mib), "{mib} MiB");
    // Other gateways are not concerned.
    let mut quiet = Agent::default();
    for turn in 0..2 {
        let counts = cluster("a", &[("s", 50 * turn, 0)]);
        take(&mut memory, "quiet", quiet.parts(&activity(1, vec![counts])), clock.at(60 + 5 * turn));
    }
    let (_, gateway, reported) = memory.reporting(clock.moment(65)).find(|(node, _, _)| *node == "quiet").unwrap();
    assert_eq!(gateway.cluster("a").unwrap().rates(reported).answers, 10.0);
    assert!(!gateway.cluster("a").unwrap().each(reported).is_empty());
}

/// A memory without room for single counts that later has some again.
#[test]
fn sums_go_on_without_single_counts() {
    let clock = Clock::new();
    let mut gateway = ProcessActivity::new(1, usize::MAX, false);
    let mut seen = Vec::new();
    for (turn, detail) in [true, true, false, false, true, true].into_iter().enumerate() {
        let at = clock.at(20 * turn as u64);
        let page = ActivityPage::default()
            .succeeded_by(&activity(1, vec![cluster("a", &[("s", 200 * (turn as u64 + 5), 0)])]));
        let report = ReportPart::read(page.parts(None).remove(0)).unwrap();
        let clusters = report.clusters().map(Result::unwrap).collect();
        let part = ProcessPart {
            uptime_seconds: 0,
            complete: true,
            partial: false,
            more: false,
            reasons: Vec::new(),
            clusters,
        };
        gateway.take(&part, None, detail, at);
        let one = gateway.cluster("a").unwrap();
        let of_each: f64 =
            one.each(at).into_iter().filter(|(key, _)| matches!(key, Key::Answers(..))).map(|(_, rate)| rate).sum();
        seen.push((one.rates(at).answers, of_each));
    }
    // A window that begins or ends without single counts has none.
    assert_eq!(seen, [(0.0, 0.0), (10.0, 10.0), (10.0, 0.0), (10.0, 0.0), (10.0, 0.0), (10.0, 0.0)]);
}

/// A gateway that was taken over reports names that no object has, under ever new nodes.
#[test]
fn gateways_together_take_no_more_than_the_room_of_all() {
    let (clock, mut memory) = (Clock::new(), small());
    let part = |more| {
        let mut part = ReportPart::read(Bytes::new()).unwrap();
        part.more = more;
        part
    };
    let invented = |from: usize| {
        let name = |number: usize| format!("{number:07}{}", "x".repeat(240));
        (from..from + 2_000)
            .map(|number| ClusterMessage { cluster: name(number), ..ClusterMessage::default() })
            .collect()
    };
    for knows in [false, true] {
        if knows {
            memory.forget_gone(clock.at(1));
            memory.follow(KnownObjects::from([("a".to_owned(), String::new())]));
        }
        for node in 0..20 {
            for turn in 0..10 {
                memory.take(
                    ReportOrigin::free(&format!("{knows}{node}")),
                    &part(turn < 9),
                    invented(turn * 2_000),
                    clock.at(2),
                );
            }
        }
        let mib = memory.bytes() >> 20;
        println!("{mib} MiB with known objects: {knows}");
        assert!((16..=32 + 2).contains(&mib), "{mib} MiB");
    }
}

/// A tenant whose certificate names any node.
#[test]
fn flood_of_one_instance_leaves_the_others_their_room() {
    let (clock, mut memory) = (Clock::new(), GatewayActivity::default());
    let report = || Agent::default().parts(&activity(1, vec![cluster("a", &[("s", 1, 0)])]));
    for node in 0..200 {
        take(&mut memory, &format!("loud/{node}"), report(), clock.at(0));
    }
    assert_eq!(memory.gateways().count(), 100);
    let reports = [loud(450, 0), loud(450, 1)];
    for (turn, report) in (0..).zip(&reports) {
        (0..8).for_each(|node| take(&mut memory, &format!("loud/{node}"), report.clone(), clock.at(turn * 5)));
    }
    let mib = memory.bytes() >> 20;
    assert!((33..=34 + 1).contains(&mib), "{mib} MiB");
    for node in ["quiet/0", "free"] {
        let mut agent = Agent::default();
        for turn in 0..2 {
            let counts = cluster("a", &[("s", 50 * turn, 0)]);
            take(&mut memory, node, agent.parts(&activity(1, vec![counts])), clock.at(10 + 5 * turn));
        }
        let found = memory.reporting(clock.moment(15)).find(|(found, _, _)| *found == node);
        let (_, gateway, reported) = found.expect("it is remembered");
        assert!(!gateway.cluster("a").unwrap().each(reported).is_empty(), "{node}");
    }
}

/// Gateways that were taken over fill all room that they get; one that takes little is still heard.
#[test]
fn large_gateways_leave_room_for_small_ones() {
    let (clock, mut memory) = (Clock::new(), small());
    // The same from each, because making them takes longer than all the rest.
    let reports = [loud(450, 0), loud(450, 1)];
    for node in 0..6 {
        for (turn, report) in (0..).zip(&reports) {
            take(&mut memory, &format!("loud{node}"), report.clone(), clock.at(turn * 5));
        }
    }
    let mib = memory.bytes() >> 20;
    println!("{mib} MiB");
    assert!((23..=32).contains(&mib), "{mib} MiB");
    let mut quiet = Agent::default();
    for turn in 0..2 {
        let counts = cluster("a", &[("s", 50 * turn, 0)]);
        take(&mut memory, "quiet", quiet.parts(&activity(1, vec![counts])), clock.at(10 + 5 * turn));
    }
    let found = memory.reporting(clock.moment(15)).find(|(node, _, _)| *node == "quiet");
    let (_, gateway, reported) = found.expect("the quiet one is remembered");
    assert_eq!(gateway.cluster("a").unwrap().rates(reported).answers, 10.0);
    assert!(!gateway.cluster("a").unwrap().each(reported).is_empty());
}

/// A hostile gateway invents reasons of refusals.
#[test]
fn invented_reasons_displace_no_real_one() {
    let (clock, mut memory) = (Clock::new(), GatewayActivity::default());
    let mut hostile = ReportPart::read(Bytes::new()).unwrap();
    for number in 0..4 {
        hostile.reasons = (0..64).map(|word| format!("word-{number}-{word}")).collect();
        memory.take(ReportOrigin::free("hostile"), &hostile, Vec::new(), clock.at(0));
    }
    let mut honest = Agent::default();
    for turn in 0..2 {
        let mut one = cluster("a", &[]);
        one.policies[0].refused = vec![("no_policy".to_owned(), 50 * turn)];
        take(&mut memory, "honest", honest.parts(&activity(1, vec![one])), clock.at(5 * turn));
    }
    let (status, served) = (status(vec![object("a", &[])]), ServedObjects::default());
    let inputs = Inputs { status: &status, served: &served, activity: &memory, now: clock.moment(5) };
    let view = cluster_view(inputs, "a", &Histories::default(), &Transitions::default()).unwrap();
    let refused: Vec<_> = view.policies.iter().flat_map(|policy| &policy.refused_per_second).collect();
    assert_eq!(refused, [&("no_policy".to_owned(), 10.0)]);
}

#[test]
fn gateways_are_bounded_and_those_that_report_stay() {
    let (clock, mut memory) = (Clock::new(), GatewayActivity::default());
    let report = || Agent::default().parts(&activity(1, vec![cluster("a", &[("s", 1, 0)])]));
    for number in 0..1_000 {
        take(&mut memory, &format!("n{number}"), report(), clock.at(0));
    }
    take(&mut memory, "late", report(), clock.at(10));
    assert!(memory.gateways().all(|(node, _)| node != "late"));
    take(&mut memory, "n7", report(), clock.at(20));
    take(&mut memory, "late", report(), clock.at(40));
    let nodes: Vec<_> = memory.gateways().map(|(node, _)| node.to_owned()).collect();
    assert_eq!(nodes, ["late", "n7"]);
}

#[test]
fn gateway_that_has_gone_is_forgotten() {
    let (clock, mut memory) = (Clock::new(), GatewayActivity::default());
    take(&mut memory, "n", Agent::default().parts(&activity(1, vec![cluster("a", &[("s", 1, 0)])])), clock.at(0));
    memory.forget_gone(clock.at(599));
    memory.follow(KnownObjects::from([("a".to_owned(), String::new())]));
    assert_eq!(memory.gateways().count(), 1);
    memory.forget_gone(clock.at(601));
    memory.follow(KnownObjects::from([("a".to_owned(), String::new())]));
    assert_eq!((memory.gateways().count(), memory.bytes()), (0, 0));
}

#[test]
fn names_without_an_object_take_no_room() {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    memory.forget_gone(clock.at(0));
    memory.follow(KnownObjects::from([("a".to_owned(), String::new())]));
    let names: Vec<String> = (0..5_000).map(|number| format!("x{number}")).collect();
    let clusters: Vec<_> = names.iter().map(|name| cluster(name, &[("s", 1, 0)])).collect();
    take(&mut memory, "n", agent.parts(&activity(1, clusters)), clock.at(0));
    let (_, gateway) = memory.gateways().next().unwrap();
    assert!(names.iter().all(|name| gateway.cluster(name).is_none()));
    assert!(memory.bytes() < 5_000 * 400, "{}", memory.bytes());
}

/// An object that is made while its name has counts already: they are not those of the last seconds.
#[test]
fn object_that_becomes_known_later_has_no_spike() {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    let mut report = |memory: &mut GatewayActivity, seconds, count| {
        take(memory, "n", agent.parts(&activity(1, vec![cluster("a", &[("s", count, 0)])])), clock.at(seconds));
        let (_, gateway, reported) = memory.reporting(clock.moment(seconds)).next().unwrap();
        gateway.cluster("a").map(|one| one.rates(reported).answers)
    };
    memory.forget_gone(clock.at(0));
    memory.follow(KnownObjects::new());
    assert_eq!(report(&mut memory, 0, 1_000_000), None);
    assert_eq!(report(&mut memory, 5, 1_000_050), None);
    memory.forget_gone(clock.at(6));
    memory.follow(KnownObjects::from([("a".to_owned(), String::new())]));
    assert_eq!(report(&mut memory, 10, 1_000_100), Some(0.0));
    assert_eq!(report(&mut memory, 15, 1_000_150), Some(10.0));
}

/// The report may come before the source is read.
#[test]
fn activity_counts_before_there_are_objects() {
    let (clock, mut memory, mut agent) = (Clock::new(), GatewayActivity::default(), Agent::default());
    for (seconds, count) in [(0, 100), (5, 150)] {
        take(&mut memory, "n", agent.parts(&activity(1, vec![cluster("a", &[("s", count, 0)])])), clock.at(seconds));
    }
    memory.forget_gone(clock.at(6));
    memory.follow(KnownObjects::from([("a".to_owned(), String::new())]));
    let (_, gateway, reported) = memory.reporting(clock.moment(6)).next().unwrap();
    assert_eq!(gateway.cluster("a").unwrap().rates(reported).answers, 10.0);
}

fn hostile_cluster() -> impl Strategy<Value = ClusterMessage> {
    let count = || prop_oneof![Just(0), Just(1), Just(u64::from(u32::MAX)), Just(u64::MAX), any::<u64>()];
    let counts = move || prop::collection::vec(count(), 0..20);
    let server = ("[a-c]", counts(), counts());
    let server = server.prop_map(|(server, answers, latency)| ServerMessage { server, answers, latency, in_flight: 0 });
    let policy = (prop_oneof![0..4_u32, any::<u32>()], count(), prop::collection::vec(0..70_u32, 0..8), counts());
    let policy =
        policy.prop_map(|(policy, forwarded, reasons, refused)| PolicyMessage { policy, forwarded, reasons, refused });
    let limit = ("[a-c]", any::<[u32; 3]>(), count(), any::<bool>());
    let limit = limit.prop_map(|(schema, [used, limit, rate], refused, local)| LimitMessage {
        schema,
        used,
        limit,
        rate,
        refused,
        local,
        shared: local,
    });
    let lists = (
        prop::collection::vec(policy, 0..6),
        prop::collection::vec(server, 0..6),
        prop::collection::vec(limit, 0..4),
        any::<u32>(),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
    );
    lists.prop_map(|(policies, servers, limits, running, top)| ClusterMessage {
        cluster: "a".to_owned(),
        policies,
        servers,
        limits,
        running,
        watches: running,
        sessions: running,
        top: top.map(Bytes::from),
        object: String::new(),
        shadows: Vec::new(),
    })
}

proptest! {
    /// Reports that no filter makes: counts of any size, that sink, repeated names, unknown reasons.
    #[test]
    fn hostile_counts_lead_to_rates_that_can_be_shown(
        clusters in prop::collection::vec((hostile_cluster(), 0..3_u64, any::<bool>()), 1..12)
    ) {
        let (clock, mut memory) = (Clock::new(), GatewayActivity::default());
        let (status, served) = (status(vec![object("a", &[])]), ServedObjects::default());
        let mut seconds = 0;
        for (message, pause, complete) in clusters {
            seconds += pause * 7;
            let mut part = ReportPart::read(Bytes::new()).unwrap();
            (part.complete, part.reasons) = (complete, vec!["reason".to_owned(); 5]);
            memory.take(ReportOrigin::free("n"), &part, vec![message], clock.at(seconds));
            let inputs = Inputs { status: &status, served: &served, activity: &memory, now: clock.moment(seconds) };
            let (histories, transitions) = (Histories::default(), Transitions::default());
            let view = cluster_view(inputs, "a", &histories, &transitions).unwrap();
            let fleet = fleet_view(inputs);
            let text = serde_json::to_string(&(&view, &fleet)).unwrap();
            prop_assert!(serde_json::from_str::<(ClusterView, FleetView)>(&text).is_ok(), "{}", text);
            for numbers in [&view.summary.numbers, &fleet.gateways[0].numbers] {
                let rates = [numbers.requests_per_second, numbers.errors_per_second, numbers.refusals_per_second];
                prop_assert!(rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0), "{:?}", rates);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_report_are_refused_or_empty(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(part) = ReportPart::read(bytes.into()) {
            let clusters: Result<Vec<_>, _> = part.clusters().collect();
            prop_assert!(clusters.map_or(true, |clusters| clusters.len() <= 200));
        }
    }
}

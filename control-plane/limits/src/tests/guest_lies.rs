//! Guests that report anything, beside a fleet and guests whose reports are true.

use portcullis_filter_config::limits::PartUse;
use portcullis_filter_config::{FlowControlLimit, GlobalStrategy};
use proptest::prelude::*;

use super::guests::{Nodes, at};

const STRATEGIES: [GlobalStrategy; 2] = [GlobalStrategy::Allocate, GlobalStrategy::Count];

/// A report: its node, the milliseconds since the one before it, the use that a guest says, and what another one wants.
#[derive(Clone, Debug)]
struct Step {
    node: usize,
    later: u64,
    lie: PartUse,
    wanted: u32,
}

fn steps(most: u64) -> impl Strategy<Value = Vec<Step>> {
    let number = || prop_oneof![0..60_u32, any::<u32>()];
    let lie = (any::<bool>(), number(), number(), number()).prop_map(|(is_leased, held, used, wanted)| PartUse {
        is_rate: false,
        is_leased,
        held,
        used,
        wanted,
    });
    let later = prop_oneof![8 => 0..most, 1 => Just(700_000_u64)];
    let step =
        (0..8_usize, later, lie, 0..80_u32).prop_map(|(node, later, lie, wanted)| Step { node, later, lie, wanted });
    prop::collection::vec(step, 1..160)
}

/// Two of the fleet, and three guests.
const NODES: [&str; 8] = ["fleet-0", "fleet-1", "a/0", "a/1", "a/2", "b/0", "b/1", "c/0"];

/// All of these nodes report what they have and that they want so much, and the others a lie, for so many seconds.
fn pass(nodes: &mut Nodes, honest: &[(&str, u32)], liars: &[(&str, PartUse)], from: f64, seconds: u32) -> f64 {
    for second in 0..seconds {
        let now = from + f64::from(second);
        liars.iter().for_each(|(node, lie)| _ = nodes.report(node, *lie, at(now)));
        honest.iter().for_each(|(node, wanted)| _ = nodes.wants(node, *wanted, now + 0.1));
    }
    from + f64::from(seconds)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn leases_of_owners_stay_within_the_limit(
        max in prop_oneof![0..8_u32, 0..200_u32],
        is_counted in any::<bool>(),
        steps in steps(1_500),
    ) {
        let strategy = STRATEGIES[usize::from(is_counted)];
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(max), strategy);
        let (mut now, mut last) = (10_000_u64, [0; 8]);
        for Step { node, later, lie, wanted } in steps {
            now += later;
            // The clocks of all are right: a lease has ended after three seconds.
            for (node, last) in NODES.iter().zip(last) {
                if now >= last + 3_000 {
                    nodes.parts.remove(*node);
                }
            }
            let second = now as f64 / 1_000.0;
            match NODES[node].split_once('/') {
                None => _ = nodes.wants(NODES[node], wanted, second),
                Some(_) => _ = nodes.report(NODES[node], lie, at(second)),
            }
            last[node] = now;
            prop_assert!(nodes.sum("") <= max, "{} of {max}: {:?}", nodes.sum(""), nodes.parts);
        }
    }

    #[test]
    fn fleet_has_half_whatever_guests_report(
        max in 2..200_u32,
        is_counted in any::<bool>(),
        lies in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>()), 6),
    ) {
        let strategy = STRATEGIES[usize::from(is_counted)];
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(max), strategy);
        let liars: Vec<_> = NODES[2..].iter().zip(lies).map(|(node, (held, used, wanted))| {
            (*node, PartUse { is_rate: false, is_leased: true, held, used, wanted })
        }).collect();
        // The fleet is idle at first, and guests take all that they get.
        let now = pass(&mut nodes, &[("fleet-0", 0), ("fleet-1", 0)], &liars, 10.0, 20);
        prop_assert!(nodes.sum("") - nodes.sum("fleet") <= max.div_ceil(2), "{:?}", nodes.parts);
        pass(&mut nodes, &[("fleet-0", 500), ("fleet-1", 500)], &liars, now, 5);
        prop_assert!(nodes.sum("fleet") >= max / 2, "{:?} of {max}", nodes.parts);
    }

    #[test]
    fn guest_gets_its_part_of_a_busy_limit(max in 12..200_u32, is_counted in any::<bool>()) {
        let strategy = STRATEGIES[usize::from(is_counted)];
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(max), strategy);
        let busy = [("fleet-0", 500), ("fleet-1", 500), ("a/0", 500), ("a/1", 500)];
        let now = pass(&mut nodes, &busy, &[], 10.0, 20);
        prop_assert!(nodes.sum("a/") >= max / 2, "{:?} of {max}", nodes.parts);
        let more = [busy[0], busy[1], busy[2], busy[3], ("b/0", 500), ("c/0", 500)];
        pass(&mut nodes, &more, &[], now, 20);
        for guest in ["a/", "b/", "c/"] {
            prop_assert!(nodes.sum(guest) >= max / 2 / 3, "{guest} in {:?} of {max}", nodes.parts);
        }
    }

    #[test]
    fn guest_gets_its_part_from_liars_in_ten_minutes(max in 12..200_u32, is_counted in any::<bool>()) {
        let strategy = STRATEGIES[usize::from(is_counted)];
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(max), strategy);
        let all = PartUse { is_rate: false, is_leased: true, held: u32::MAX, used: u32::MAX, wanted: u32::MAX };
        let (fleet, liars) = ([("fleet-0", 500), ("fleet-1", 500)], [("a/0", all), ("a/1", all)]);
        let now = pass(&mut nodes, &fleet, &liars, 10.0, 20);
        pass(&mut nodes, &[fleet[0], fleet[1], ("b/0", 500)], &liars, now, 616);
        prop_assert!(nodes.sum("b/") >= max / 4, "{:?} of {max}", nodes.parts);
        prop_assert!(nodes.sum("fleet") >= max / 2, "{:?} of {max}", nodes.parts);
    }

    #[test]
    fn processes_that_a_guest_invents_change_no_other_part(
        max in 12..300_u32,
        is_counted in any::<bool>(),
        invented in 1..64_usize,
    ) {
        let strategy = STRATEGIES[usize::from(is_counted)];
        let all = PartUse { is_rate: false, is_leased: true, held: u32::MAX, used: u32::MAX, wanted: u32::MAX };
        let names: Vec<String> = (0..invented).map(|number| format!("a/{number}")).collect();
        let others = [("fleet-0", 500), ("fleet-1", 3), ("fleet-2", 90), ("b/0", 500), ("b/1", 2)];
        let parts = [1, invented].map(|count| {
            let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(max), strategy);
            let liars: Vec<_> = names.iter().take(count).map(|name| (name.as_str(), all)).collect();
            // Of the honest guest some seconds later: it is there from the beginning, and asks then.
            let now = pass(&mut nodes, &[("b/0", 0), ("fleet-0", 0)], &liars, 10.0, 1);
            pass(&mut nodes, &others, &liars, now, 30);
            others.map(|(node, _)| nodes.parts[node].map(|part| part.quota))
        });
        prop_assert_eq!(parts[0], parts[1]);
    }
}

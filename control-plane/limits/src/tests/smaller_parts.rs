//! Parts that become smaller while their guests lie, or answers are lost.

use portcullis_filter_config::limits::PartUse;
use portcullis_filter_config::{FlowControlLimit, GlobalStrategy};

use super::guests::{Nodes, at};
use super::rules::limits;

const STRATEGIES: [GlobalStrategy; 2] = [GlobalStrategy::Allocate, GlobalStrategy::Count];
/// The use of a process that says to have all that it was ever granted.
const LIE: PartUse = PartUse { is_rate: false, is_leased: true, held: u32::MAX, used: u32::MAX, wanted: u32::MAX };

/// Reports of liars and of honest nodes, each second from one to another.
fn pass(nodes: &mut Nodes, liars: &[&str], honest: &[&str], seconds: std::ops::Range<u32>) {
    for second in seconds.map(f64::from) {
        liars.iter().for_each(|node| _ = nodes.report(node, LIE, at(second)));
        honest.iter().for_each(|node| _ = nodes.wants(node, 100, second + 0.1));
    }
}

#[test]
fn fleet_has_its_half_when_a_limit_is_lowered() {
    for strategy in STRATEGIES {
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(100), strategy);
        pass(&mut nodes, &["a/0"], &["fleet-0"], 10..30);
        assert_eq!((nodes.sum("a/"), nodes.sum("fleet")), (50, 50), "{strategy:?}");
        nodes.limiter.configure(&limits(FlowControlLimit::MaxRequestsInflight(50), strategy), at(30.0));
        pass(&mut nodes, &["a/0"], &["fleet-0"], 30..40);
        assert_eq!((nodes.sum("a/"), nodes.sum("fleet")), (25, 25), "{strategy:?}");
    }
}

#[test]
fn guest_has_its_part_beside_a_liar_when_the_fleet_returns() {
    for strategy in STRATEGIES {
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(100), strategy);
        pass(&mut nodes, &[], &["a/0", "b/0"], 65..75);
        assert_eq!((nodes.sum("a/"), nodes.sum("b/")), (50, 50), "{strategy:?}");
        pass(&mut nodes, &["a/0"], &["b/0", "fleet-0"], 75..86);
        assert_eq!([nodes.sum("fleet"), nodes.sum("a/"), nodes.sum("b/")], [50, 25, 25], "{strategy:?}");
    }
}

/// A guest that gives its unit back near the end of its turn and asks for it again, so that it has it anew.
#[test]
fn unit_of_a_turn_is_the_fleets_in_the_next_one() {
    for strategy in STRATEGIES {
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(1), strategy);
        let nothing = PartUse { held: 0, used: 0, wanted: 0, ..LIE };
        let mut quarters = 0;
        for quarter in (40..2_440).map(f64::from) {
            let (now, in_two_turns) = (quarter / 4.0, quarter % 80.0);
            // At 17 to 18.5 s of twenty: what it wanted counts for a second.
            let gives_back = (68.0..=74.0).contains(&in_two_turns);
            nodes.report("a/0", if gives_back { nothing } else { LIE }, at(now));
            // The fleet reports after the guest has asked again.
            if !gives_back {
                nodes.wants("fleet-0", 10, now + 0.1);
                quarters += nodes.sum("fleet");
            }
        }
        assert!(quarters >= 4 * 75, "{strategy:?}: {quarters} quarters of a second of 600 seconds");
    }
}

#[test]
fn part_of_a_lost_answer_is_no_other_guests() {
    let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(40), GlobalStrategy::Allocate);
    for (node, now) in [("fleet-0", 2.5), ("a/0", 2.6)] {
        let used = PartUse { is_rate: false, is_leased: true, held: 20, used: 20, wanted: 20 };
        assert_eq!(nodes.report(node, used, at(now)).map(|part| part.quota), Some(20), "{node} has it renewed");
    }
    assert_eq!(nodes.wants("b/0", 10, 2.9), None, "the limiter learns");
    // An answer while the limiter learns, and one afterwards.
    for (now, next) in [(3.0, 3.2), (3.3, 3.4)] {
        let before = nodes.parts.clone();
        nodes.wants("a/0", 20, now);
        nodes.parts = before;
        assert_eq!(nodes.wants("b/0", 10, next).unwrap_or_default(), 0, "the lease of {} lasts", nodes.sum("a/"));
    }
    assert_eq!(nodes.wants("a/0", 20, 3.5), Some(10));
    nodes.wants("a/0", 20, 3.6);
    assert_eq!(nodes.wants("b/0", 10, 3.7), Some(10), "it is given back");
}

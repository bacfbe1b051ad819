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

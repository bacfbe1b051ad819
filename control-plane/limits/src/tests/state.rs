use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_filter_config::limits::PartUse;
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};
use proptest::prelude::*;

use crate::{Limiter, NodeOwners};

/// A report: its gateway, its number, the milliseconds since the one before it, and the use.
type Report = (u8, u64, u64, PartUse);

fn reports() -> impl Strategy<Value = Vec<Report>> {
    let used = (any::<bool>(), 0_u32..40, 0_u32..40, 0_u32..60);
    let used = used.prop_map(|(is_rate, held, used, wanted)| PartUse {
        is_rate,
        is_leased: held % 2 == 0,
        held,
        used,
        wanted,
    });
    prop::collection::vec((0_u8..5, 1_u64..200, 0_u64..3_000, used), 1..120)
}

fn limits(step: usize) -> BTreeMap<String, GlobalLimit> {
    let seats = FlowControlLimit::MaxRequestsInflight(if step < 60 { 30 } else { 12 });
    let rate = FlowControlLimit::TokenBucket { qps: 50, burst: 20 };
    let limit = |limit, strategy| GlobalLimit { limit, strategy };
    BTreeMap::from([
        ("seats".to_owned(), limit(seats, GlobalStrategy::Allocate)),
        ("counted seats".to_owned(), limit(seats, GlobalStrategy::Count)),
        ("rate".to_owned(), limit(rate, GlobalStrategy::Allocate)),
        ("counted rate".to_owned(), limit(rate, GlobalStrategy::Count)),
    ])
}

proptest! {
    #[test]
    fn limiter_that_was_written_down_answers_as_before(reports in reports()) {
        // One node is of the fleet, and two guests have two each.
        let owners = NodeOwners::new(|node| match node {
            "node-0" => None,
            "node-1" | "node-2" => Some("a".to_owned()),
            _ => Some("b".to_owned()),
        });
        let (mut kept, mut written) = (Limiter::of_owners(owners.clone()), Limiter::new().write("c"));
        let mut now = Duration::from_secs(1_800_000_000);
        for (step, (node, number, later, used)) in reports.into_iter().enumerate() {
            now += Duration::from_millis(later);
            let mut read = Limiter::read("c", &written, &owners, now).unwrap();
            let answers = [&mut kept, &mut read].map(|limiter| {
                limiter.configure_cluster("c", &limits(step), now);
                let holder = limiter.holder(&format!("node-{node}"), u64::from(node % 2), number, now).ok()?;
                let schemas = limits(step);
                Some(schemas.keys().map(|schema| limiter.exchange(holder, "c", schema, used, now)).collect::<Vec<_>>())
            });
            prop_assert_eq!(&answers[0], &answers[1]);
            written = read.write("c");
        }
    }
}

#[test]
fn state_of_another_format_or_of_a_later_time_is_not_read() {
    let second = Duration::from_secs;
    assert!(Limiter::read("c", &[], &NodeOwners::default(), second(9)).is_none(), "no format");
    assert!(Limiter::read("c", &[8, 2], &NodeOwners::default(), second(9)).is_none(), "a later one");
    assert!(Limiter::read("c", &[8, 1], &NodeOwners::default(), second(9)).is_some());
    let mut limiter = Limiter::new();
    limiter.configure_cluster("c", &limits(0), second(5));
    limiter.holder("node", 1, 1, second(9)).unwrap();
    let written = limiter.write("c");
    assert!(Limiter::read("c", &written, &NodeOwners::default(), second(8)).is_none(), "the clock was set back");
    assert!(Limiter::read("c", &written, &NodeOwners::default(), second(9)).is_some());
}

/// A control plane of another region may have an older edition of the object.
#[test]
fn limit_that_one_control_plane_lacks_keeps_its_parts() {
    let second = Duration::from_secs;
    let (all, mut fewer) = (limits(0), limits(0));
    fewer.remove("seats");
    let mut written = Limiter::new().write("c");
    let mut report = |limits: &BTreeMap<String, GlobalLimit>, process: u64, (held, wanted): (u32, u32), now: u64| {
        let mut limiter = Limiter::read("c", &written, &NodeOwners::default(), second(now)).unwrap();
        limiter.configure_cluster("c", limits, second(now));
        let holder = limiter.holder(&format!("node-{process}"), process, now, second(now)).unwrap();
        let used = PartUse { held, wanted, ..PartUse::default() };
        let schema = if limits.contains_key("seats") { "seats" } else { "counted seats" };
        let part = limiter.exchange(holder, "c", schema, used, second(now)).and_then(|answer| answer.part);
        written = limiter.write("c");
        part.map(|part| part.quota)
    };
    report(&all, 1, (0, 30), 1);
    assert_eq!(report(&all, 1, (0, 30), 5), Some(30));
    report(&fewer, 2, (0, 0), 5);
    assert_eq!(report(&all, 3, (0, 30), 6), None, "nothing is left");
    report(&fewer, 2, (0, 0), 6);
    assert_eq!(report(&all, 1, (30, 0), 7), Some(1));
    report(&fewer, 2, (0, 0), 7);
    assert_eq!(report(&all, 1, (1, 0), 8), Some(1));
    assert_eq!(report(&all, 3, (0, 30), 8), Some(29), "what the first one has given back");
    report(&fewer, 2, (0, 0), 20);
    assert_eq!(report(&all, 3, (0, 30), 21), None, "nothing was reported of it for long: it begins anew");
}

//! Units that go round, and processes that all say the truth.

use std::collections::BTreeMap;

use portcullis_filter_config::{FlowControlLimit, GlobalStrategy};

use super::guests::Nodes;

#[test]
fn unit_comes_to_each_process_of_each_owner() {
    for (strategy, guests) in
        [GlobalStrategy::Allocate, GlobalStrategy::Count].into_iter().flat_map(|one| [(one, 1), (one, 2), (one, 4)])
    {
        let owners = (0..guests).map(|guest| format!("guest-{guest}/")).chain(["fleet-".to_owned()]);
        let names: Vec<String> = owners.flat_map(|owner| [0, 1].map(|process| format!("{owner}{process}"))).collect();
        let mut nodes = Nodes::new(FlowControlLimit::MaxRequestsInflight(1), strategy);
        let mut had = BTreeMap::<&str, u32>::new();
        // Each process of four guests has its turn in 160 seconds.
        for second in (10..340).map(f64::from) {
            for (place, name) in (0..).zip(&names) {
                let quota = nodes.wants(name, 10, second + f64::from(place) / 100.0);
                *had.entry(name).or_default() += quota.unwrap_or_default();
                assert!(nodes.sum("") <= 1, "{strategy:?}: {:?}", nodes.parts);
            }
        }
        let has_had = |name: &String| had.get(name.as_str()).is_some_and(|seconds| *seconds > 0);
        assert!(names.iter().all(has_had), "{strategy:?}, {guests} guests: seconds with the unit {had:?}");
    }
}

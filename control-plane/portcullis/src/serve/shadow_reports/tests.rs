use portcullis_filter_config::activity::{ShadowActivity, ShadowDifference};
use prost::Message;

use super::*;
use crate::activity_report::{DifferenceMessage, ShadowMessage};

fn kind(resource: &str) -> ShadowDifference {
    let words = ["0", "-", "would_refuse", "LIST", resource].map(str::to_owned);
    let [policy, shadow_policy, agreement, verb, resource] = words;
    ShadowDifference { policy, shadow_policy, agreement, verb, resource }
}

fn shadow(generation: &str, judged: u64, differences: &[(&str, u64)]) -> ShadowMessage {
    let differences = differences.iter().map(|(resource, count)| {
        let ShadowDifference { policy, shadow_policy, agreement, verb, resource } = kind(resource);
        DifferenceMessage { policy, shadow_policy, agreement, verb, resource, count: *count }
    });
    ShadowMessage { generation: generation.to_owned(), judged, differences: differences.collect(), others: 0 }
}

fn cluster(name: &str, shadows: &[ShadowMessage]) -> ClusterMessage {
    let shadows = shadows.iter().map(|one| one.encode_to_vec().into()).collect();
    ClusterMessage { cluster: name.to_owned(), shadows, ..ClusterMessage::default() }
}

/// A control plane whose object `prod` has this edition, and its clock.
struct Plane {
    reports: ShadowReports,
    now: Instant,
}

impl Plane {
    fn new(generation: &str) -> Self {
        let plane = Plane { reports: ShadowReports::default(), now: Instant::now() };
        plane.serve(generation);
        plane
    }

    fn within(self, bounds: Bounds) -> Self {
        self.reports.lock().bounds = bounds;
        self
    }

    fn serve(&self, generation: &str) {
        self.reports.follow(BTreeMap::from([("prod".to_owned(), generation.to_owned())]), self.now);
    }

    fn report(&self, node: &str, process: u64, shadows: &[ShadowMessage]) {
        self.reports.take(node, process, &[cluster("prod", shadows)], self.now);
    }

    /// Gateways, judged requests, and differences with others at the end.
    fn facts(&self) -> (usize, u64, Vec<u64>, bool) {
        let facts = self.reports.facts("prod").unwrap();
        let counts = facts.differences.iter().map(|(_, count)| *count).chain([facts.others]);
        (facts.gateways, facts.judged, counts.collect(), facts.is_partial)
    }
}

#[test]
fn counts_of_gateways_add_up_over_restarts() {
    let plane = Plane::new("a");
    assert_eq!(plane.facts(), (0, 0, vec![0], false));
    plane.report("one", 1, &[shadow("a", 10, &[("pods", 2)])]);
    plane.report("two", 7, &[shadow("a", 5, &[("pods", 1), ("secrets", 1)])]);
    assert_eq!(plane.facts(), (2, 15, vec![3, 1, 0], false));
    plane.report("one", 1, &[shadow("a", 12, &[("pods", 3)])]);
    assert_eq!(plane.facts(), (2, 17, vec![4, 1, 0], false), "the growth alone");
    plane.report("one", 2, &[shadow("a", 1, &[])]);
    assert_eq!(plane.facts(), (2, 18, vec![4, 1, 0], false), "another process");
    plane.report("two", 7, &[shadow("a", 1, &[("pods", 1)])]);
    assert_eq!(plane.facts(), (2, 19, vec![5, 1, 0], false), "the process had forgotten the edition meanwhile");
    plane.reports.take("two", 7, &[], plane.now);
    assert_eq!(plane.facts().0, 2, "nothing has changed");
    assert_eq!(plane.reports.facts("other"), None);
}

#[test]
fn editions_of_a_shadow_never_meet() {
    let plane = Plane::new("a");
    plane.report("one", 1, &[shadow("a", 10, &[("pods", 2)])]);
    // A gateway may have the new one, and report it once, before this process looks.
    plane.report("one", 1, &[shadow("a", 11, &[("pods", 2)]), shadow("b", 3, &[])]);
    plane.serve("b");
    assert_eq!(plane.facts(), (1, 3, vec![0], false));
    plane.report("two", 5, &[shadow("a", 9, &[("pods", 9)])]);
    assert_eq!(plane.facts(), (1, 3, vec![0], false), "the other gateway has yet to follow");
    plane.reports.follow(BTreeMap::new(), plane.now);
    assert_eq!(plane.reports.facts("prod"), None);
    let later = Plane { now: plane.now + GRACE, ..plane };
    later.serve("c");
    assert_eq!(later.reports.lock().bytes, 0, "nothing of old editions is kept");
    assert_eq!(later.facts(), (0, 0, vec![0], false));
}

#[test]
fn gateways_that_invent_reports_take_bounded_memory() {
    let plane = Plane::new("a").within(Bounds { gateways: 20, bytes: 100_000, of_one: 40_000 });
    plane.report("honest", 1, &[shadow("a", 10, &[])]);
    let words: Vec<_> = (0..32).map(|word| format!("{word}{}", "x".repeat(100))).collect();
    let differences: Vec<_> = words.iter().map(|word| (word.as_str(), 1)).collect();
    for node in 0..50 {
        for name in 0..50 {
            let reports = ["x", "y"].map(|generation| shadow(generation, 1, &differences));
            plane.reports.take(&node.to_string(), 1, &[cluster(&name.to_string(), &reports)], plane.now);
        }
    }
    assert!(plane.reports.lock().bytes <= 100_000, "{}", plane.reports.lock().bytes);
    assert!(plane.reports.lock().gateways.len() <= 20);
    plane.report("late", 1, &[shadow("a", 1, &differences)]);
    assert_eq!(
        plane.facts(),
        (1, 10, vec![0], true),
        "a report without room is not taken for one without a difference"
    );
    let later = Plane { now: plane.now + GRACE, ..plane };
    later.serve("a");
    later.report("late", 1, &[shadow("a", 1, &differences)]);
    assert_eq!(later.facts().2, [vec![1; 32], vec![0]].concat());
}

#[test]
fn silent_gateway_gives_its_place_and_keeps_its_counts() {
    let plane = Plane::new("a").within(Bounds { gateways: 1, ..Bounds::default() });
    plane.report("one", 1, &[shadow("a", 10, &[("pods", 2)])]);
    plane.report("two", 1, &[shadow("a", 1, &[])]);
    assert_eq!(plane.facts(), (1, 10, vec![2, 0], true));
    let later = Plane { now: plane.now + SILENCE, ..plane };
    later.report("two", 1, &[shadow("a", 1, &[])]);
    assert_eq!(later.facts(), (1, 11, vec![2, 0], true));
}

/// The words of a page, and hostile ones.
#[test]
fn words_of_reports_are_those_of_filters() {
    let activity =
        ShadowActivity { generation: "a".to_owned(), judged: 3, differences: vec![(kind(""), 1)], others: 0 };
    let page = portcullis_filter_config::activity::Activity {
        clusters: vec![portcullis_filter_config::activity::ClusterActivity {
            cluster: "prod".to_owned(),
            shadows: vec![activity],
            ..Default::default()
        }],
        ..Default::default()
    };
    let parts = crate::activity_report::ActivityPage::default().succeeded_by(&page).parts(None);
    let part = crate::activity_report::ReportPart::read(parts[0].clone()).unwrap();
    let clusters: Vec<_> = part.clusters().collect::<Result<_, _>>().unwrap();
    let plane = Plane::new("a");
    plane.reports.take("one", 1, &clusters, plane.now);
    assert_eq!(plane.facts(), (1, 3, vec![1, 0], false));
    let hostile = [("a b", 1), ("x\u{1b}[31m", 1), (&*"x".repeat(200), 1), ("pods/exec", 1), ("<b>", 1)];
    plane.report("two", 1, &[shadow("a", 9, &hostile)]);
    assert_eq!(plane.facts(), (2, 12, vec![1, 1, 4], false), "their counts are of other kinds");
}

use portcullis_filter_config::activity::{ShadowActivity, ShadowDifference};
use portcullis_xds::InstanceShares;
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
        self.reports.follow(Some(BTreeMap::from([("prod".to_owned(), generation.to_owned())])), self.now);
    }

    fn report(&self, node: &str, process: u64, shadows: &[ShadowMessage]) {
        self.reports.take(ReportOrigin::free(node), process, &[cluster("prod", shadows)], self.now);
    }

    /// Gateways, judged requests, and differences with others at the end.
    fn facts(&self) -> (usize, u64, Vec<u64>, bool) {
        let facts = self.reports.facts()["prod"].clone();
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
    plane.reports.take(ReportOrigin::free("two"), 7, &[], plane.now);
    assert_eq!(plane.facts().0, 2, "nothing has changed");
    assert_eq!(plane.reports.facts().get("other"), None);
}

/// Two Envoys may have one node id: one drains while another has taken its place, or their ids are not those of their pods.
#[test]
fn processes_of_one_node_add_their_growth_alone() {
    let plane = Plane::new("a");
    for _ in 0..10 {
        plane.report("one", 1, &[shadow("a", 1_000, &[("pods", 5)])]);
        plane.report("one", 2, &[shadow("a", 500, &[("pods", 1)])]);
    }
    assert_eq!(plane.facts(), (1, 1_500, vec![6, 0], false));
    plane.report("one", 1, &[shadow("a", 1_001, &[("pods", 6)])]);
    assert_eq!(plane.facts(), (1, 1_501, vec![7, 0], false));
    for _ in 0..10 {
        (3..20).for_each(|process| plane.report("one", process, &[shadow("a", 1, &[])]));
    }
    let (gateways, judged, _, is_partial) = plane.facts();
    assert_eq!((gateways, is_partial), (1, true), "more processes than a node has at one time");
    assert!(judged <= 1_501 + 17, "{judged}");
    let later = Plane { now: plane.now + SILENCE, ..plane };
    later.report("one", 19, &[shadow("a", 2, &[])]);
    later.serve("a");
    assert_eq!(later.reports.lock().gateways.len(), 1, "those before it have ended");
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
    plane.reports.follow(Some(BTreeMap::new()), plane.now);
    assert_eq!(plane.reports.facts().get("prod"), None);
    let later = Plane { now: plane.now + GRACE, ..plane };
    later.serve("c");
    assert_eq!(later.reports.lock().bytes.total(), 0, "nothing of old editions is kept");
    assert_eq!(later.facts(), (0, 0, vec![0], false));
}

#[test]
fn gateways_that_invent_reports_take_bounded_memory() {
    let plane = Plane::new("a").within(Bounds { gateways: 20, bytes: 100_000, of_one: 40_000, ..Bounds::default() });
    plane.report("honest", 1, &[shadow("a", 10, &[])]);
    let words: Vec<_> = (0..32).map(|word| format!("{word}{}", "x".repeat(100))).collect();
    let differences: Vec<_> = words.iter().map(|word| (word.as_str(), 1)).collect();
    for node in 0..50 {
        for name in 0..50 {
            let reports = ["x", "y"].map(|generation| shadow(generation, 1, &differences));
            plane.reports.take(
                ReportOrigin::free(&node.to_string()),
                1,
                &[cluster(&name.to_string(), &reports)],
                plane.now,
            );
        }
    }
    assert!(plane.reports.lock().bytes.total() <= 100_000, "{}", plane.reports.lock().bytes.total());
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

fn of_instance(membership: &Membership) -> ReportOrigin<'_> {
    let Membership::Instances(names) = membership else { panic!("{membership:?}") };
    let name: &'static str = if names.contains("a") { "a/one" } else { "b/one" };
    ReportOrigin { name, membership }
}

#[test]
fn flood_of_one_instance_leaves_room_for_others() {
    let shares = InstanceShares { own: 20_000, rest: 40_000, most: 50_000 };
    let plane = Plane::new("a").within(Bounds { of_instance: 10, instances: shares, ..Bounds::default() });
    let words: Vec<_> = (0..32).map(|word| format!("{word}{}", "x".repeat(100))).collect();
    let differences: Vec<_> = words.iter().map(|word| (word.as_str(), 1)).collect();
    let loud = Membership::Instances(["a".to_owned()].into());
    for node in 0..50 {
        let name = format!("a/{node}");
        let from = ReportOrigin { name: &name, membership: &loud };
        let editions = ["a", "b", "c"].map(|edition| shadow(edition, 1, &differences));
        plane.reports.take(from, 1, &[cluster("prod", &editions)], plane.now);
    }
    let (bytes, count) = {
        let memory = plane.reports.lock();
        (memory.bytes.of(Some("a")), memory.gateways.len())
    };
    assert!((20_000..=50_000).contains(&bytes) && count == 10, "{bytes} {count}");
    let quiet = Membership::Instances(["b".to_owned()].into());
    let reported = [cluster("quiet", &[shadow("a", 1, &differences)])];
    plane.reports.follow(Some([("quiet".to_owned(), "a".to_owned())].into()), plane.now);
    plane.reports.take(of_instance(&quiet), 1, &reported, plane.now);
    let facts = plane.reports.facts()["quiet"].clone();
    assert_eq!((facts.gateways, facts.judged, facts.is_partial), (1, 1, false));
}

/// The next owner's gateways have counted some of it while the object passed over.
#[test]
fn counts_of_a_former_owner_end_with_the_hand_over() {
    let plane = Plane::new("a");
    let [a, b] = ["a", "b"].map(|name| Membership::Instances([name.to_owned()].into()));
    let report = |membership: &Membership, process: u64, count: u64| {
        let of_both = ["prod", "other"].map(|name| cluster(name, &[shadow("a", count, &[("pods", count)])]));
        plane.reports.take(of_instance(membership), process, &of_both, plane.now);
    };
    [(&a, 1, 10), (&b, 1, 5), (&b, 2, 2)].iter().for_each(|(one, process, count)| report(one, *process, *count));
    assert_eq!(plane.facts(), (2, 17, vec![17, 0], false));
    let none = plane.reports.lock().bytes.of(Some("b"));
    plane.reports.forget_foreign(&["unknown"].into(), |_, _| false);
    assert_eq!((plane.facts().1, plane.reports.lock().bytes.of(Some("b"))), (17, none));
    for names in [["prod"].into(), ["other", "prod", "x", "y", "z"].into()] {
        plane.reports.forget_foreign(&names, |membership, _| *membership == b);
        assert_eq!(plane.facts(), (1, 7, vec![7, 0], false));
    }
    assert_eq!(plane.reports.lock().bytes.of(Some("a")), 0, "the sums take of the memory of the next owner");
    let bytes = plane.reports.lock().bytes.of(Some("b"));
    plane.reports.lock().prune(plane.now);
    assert_eq!(plane.reports.lock().bytes.of(Some("b")), bytes);
    report(&b, 1, 6);
    assert_eq!(plane.facts(), (1, 8, vec![8, 0], false), "the growth alone");
    plane.reports.forget_foreign(&["prod"].into(), |_, _| false);
    assert_eq!(plane.facts(), (0, 0, vec![0], false));
}

#[test]
fn silent_gateway_gives_its_place_and_keeps_its_counts() {
    let plane = Plane::new("a").within(Bounds { gateways: 1, ..Bounds::default() });
    plane.report("one", 1, &[shadow("a", 10, &[("pods", 2)])]);
    plane.report("two", 1, &[shadow("a", 1, &[])]);
    assert_eq!(plane.facts(), (1, 10, vec![2, 0], true));
    let later = Plane { now: plane.now + SILENCE, ..plane };
    later.report("two", 1, &[shadow("a", 1, &[])]);
    later.serve("a");
    assert_eq!(later.facts(), (1, 11, vec![2, 0], false));
}

#[test]
fn report_without_room_is_made_good_by_the_next() {
    let plane = Plane::new("a").within(Bounds { gateways: 1, ..Bounds::default() });
    plane.report("one", 1, &[shadow("a", 10, &[])]);
    plane.report("two", 1, &[shadow("a", 1, &[])]);
    plane.report("one", 1, &[shadow("a", 11, &[])]);
    assert_eq!(plane.facts(), (1, 11, vec![0], true), "that of the other is still missing");
    let plane = plane.within(Bounds::default());
    plane.report("two", 1, &[shadow("a", 2, &[])]);
    assert_eq!(plane.facts(), (2, 13, vec![0], false));
}

/// Counts that take the place of their former ones need no room.
#[test]
fn known_gateway_has_room_for_its_newest_counts() {
    let plane = Plane::new("a");
    let kinds: Vec<_> = (0..30).map(|kind| kind.to_string()).collect();
    let report = |count| {
        let differences: Vec<_> = kinds.iter().map(|kind| (kind.as_str(), count)).collect();
        plane.report("one", 1, &[shadow("a", 100 * count, &differences)]);
    };
    report(1);
    let bytes = plane.reports.lock().bytes.total();
    plane.reports.lock().bounds = Bounds { bytes: bytes + 10, of_one: bytes, ..Bounds::default() };
    report(2);
    assert_eq!(plane.facts(), (1, 200, [vec![2; 30], vec![0]].concat(), false));
}

#[test]
fn invented_editions_leave_room_for_those_of_objects() {
    let plane = Plane::new("a").within(Bounds { bytes: 100_000, ..Bounds::default() });
    for name in 0..1_000 {
        plane.reports.take(
            ReportOrigin::free("liar"),
            1,
            &[cluster(&name.to_string(), &[shadow("x", 1, &[("pods", 1)])])],
            plane.now,
        );
    }
    let kinds: Vec<_> = (0..30).map(|kind| kind.to_string()).collect();
    let differences: Vec<_> = kinds.iter().map(|kind| (kind.as_str(), 1)).collect();
    plane.report("one", 1, &[shadow("a", 30, &differences)]);
    assert_eq!(plane.facts(), (1, 30, [vec![1; 30], vec![0]].concat(), false));
}

#[test]
fn gateways_that_are_gone_are_not_numbered() {
    let plane = Plane::new("a");
    ["one", "two", "three"].iter().for_each(|node| plane.report(node, 1, &[shadow("a", 10, &[])]));
    assert_eq!(plane.facts(), (3, 30, vec![0], false));
    let later = Plane { now: plane.now + SILENCE, ..plane };
    later.report("two", 1, &[shadow("a", 11, &[])]);
    later.serve("a");
    assert_eq!(later.facts(), (1, 31, vec![0], false), "what they have counted stays");
    let later = Plane { now: later.now + PRUNE_INTERVAL, ..later };
    later.report("one", 1, &[shadow("a", 12, &[])]);
    later.serve("a");
    assert_eq!(later.facts(), (2, 33, vec![0], false), "it was not forgotten");
}

/// The texts alone: a lower bound.
#[test]
fn bytes_are_not_less_than_what_is_kept() {
    let plane = Plane::new("a");
    let (name, generation, resource) = ("n".repeat(260), "g".repeat(160), "r".repeat(160));
    let clusters = [cluster(&name, &[shadow(&generation, 1, &[(&resource, 1)])])];
    plane.reports.take(ReportOrigin::free("one"), 1, &clusters, plane.now);
    let kept = 2 * (name.len() + generation.len() + resource.len() + size_of::<ShadowDifference>());
    let kept = kept + size_of::<ReportedShadow>() + size_of::<ShadowSums>();
    let counted = plane.reports.lock().bytes.total();
    plane.reports.lock().prune(plane.now);
    assert_eq!(plane.reports.lock().bytes.total(), counted);
    assert!(counted >= kept, "{counted} of {kept}");
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
    plane.reports.take(ReportOrigin::free("one"), 1, &clusters, plane.now);
    assert_eq!(plane.facts(), (1, 3, vec![1, 0], false));
    let hostile = [("a b", 1), ("x\u{1b}[31m", 1), (&*"x".repeat(200), 1), ("pods/exec", 1), ("<b>", 1)];
    plane.report("two", 1, &[shadow("a", 9, &hostile)]);
    assert_eq!(plane.facts(), (2, 12, vec![1, 1, 4], false), "their counts are of other kinds");
}

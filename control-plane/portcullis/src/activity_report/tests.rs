use bytes::Bytes;
use portcullis_filter_config::activity::{
    Activity, ClusterActivity, Latency, LimitUse, PolicyActivity, ServerActivity, Talker, TopTalkers,
};
use portcullis_report::bounds::{MAX_CLUSTER_BYTES, MAX_PART_BYTES, MAX_SERVERS};
use portcullis_report::message::{
    ClusterMessage, PartMessage, PolicyMessage, ServerMessage, TalkerMessage, TalkersMessage,
};
use prost::Message;

use super::{ActivityPage, MAX_TALKERS, OTHER, ReportPart, talkers};

fn cluster(name: &str, forwarded: u64) -> ClusterActivity {
    let policy = PolicyActivity {
        policy: "0".to_owned(),
        forwarded,
        refused: vec![("too_many_requests".to_owned(), 2), ("no_policy".to_owned(), 1)],
    };
    let latency = Latency { buckets: [0, 0, forwarded, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], sum: 1 };
    let server = ServerActivity {
        server: "10.0.0.1:6443".to_owned(),
        answers: [1, 0, forwarded, 0, 3, 4],
        latency,
        in_flight: 6,
    };
    let limit =
        LimitUse { schema: "reads".to_owned(), used: 3, limit: 10, rate: 5, refused: 7, local: true, shared: true };
    ClusterActivity {
        cluster: name.to_owned(),
        policies: vec![policy],
        servers: vec![server],
        limits: vec![limit],
        running: 1,
        watches: 2,
        sessions: 3,
        shadows: Vec::new(),
        top: None,
        object: "0123456789abcdef".to_owned(),
    }
}

fn activity(process: u64, clusters: Vec<ClusterActivity>) -> Activity {
    Activity { process, uptime_seconds: 9, clusters }
}

/// The parts, read, and the names of their clusters.
fn read(parts: &[Bytes]) -> Vec<(ReportPart, Vec<ClusterMessage>)> {
    let one = |part: &Bytes| {
        let part = ReportPart::read(part.clone()).unwrap();
        let clusters = part.clusters().map(Result::unwrap).collect();
        (part, clusters)
    };
    parts.iter().map(one).collect()
}

fn names(parts: &[Bytes]) -> Vec<String> {
    read(parts).into_iter().flat_map(|(_, clusters)| clusters).map(|cluster| cluster.cluster).collect()
}

#[test]
fn report_arrives_as_the_page_was() {
    let page = ActivityPage::default().succeeded_by(&activity(7, vec![cluster("a", 100)]));
    let [(part, clusters)] = &read(&page.parts(None))[..] else { panic!("one part") };
    assert_eq!((part.process, part.uptime_seconds, part.complete, part.more), (7, 9, true, false));
    let [cluster] = &clusters[..] else { panic!("one cluster") };
    assert_eq!((cluster.running, cluster.watches, cluster.sessions), (1, 2, 3));
    let policy = &cluster.policies[0];
    assert_eq!((policy.policy, policy.forwarded, &policy.refused[..]), (1, 100, &[2, 1][..]));
    let reasons: Vec<_> = policy.reasons.iter().map(|reason| part.reason(*reason).unwrap()).collect();
    assert_eq!(reasons, ["too_many_requests", "no_policy"]);
    assert_eq!(cluster.servers[0].answers, [1, 0, 100, 0, 3, 4]);
    assert_eq!(cluster.servers[0].latency.iter().sum::<u64>(), 101);
    let limit = &cluster.limits[0];
    assert_eq!((limit.used, limit.limit, limit.rate, limit.refused, limit.local), (3, 10, 5, 7, true));
}

#[test]
fn later_report_has_only_clusters_that_changed() {
    let first = ActivityPage::default().succeeded_by(&activity(7, vec![cluster("a", 1), cluster("b", 1)]));
    let second = first.clone().succeeded_by(&activity(7, vec![cluster("a", 2), cluster("b", 1)]));
    assert_eq!(names(&second.parts(Some(first.since()))), ["a"]);
    assert_eq!(names(&second.parts(None)), ["a", "b"]);
    // A receiver that missed one gets what has changed in both.
    let third = second.clone().succeeded_by(&activity(7, vec![cluster("a", 2), cluster("b", 3)]));
    assert_eq!(names(&third.parts(Some(first.since()))), ["a", "b"]);
    let quiet = third.clone().succeeded_by(&activity(7, vec![cluster("a", 2), cluster("b", 3)]));
    let parts = quiet.parts(Some(third.since()));
    assert_eq!((parts.len(), names(&parts)), (1, vec![]), "it says at least that the gateway reports");
}

#[test]
fn report_of_another_process_is_complete() {
    let first = ActivityPage::default().succeeded_by(&activity(7, vec![cluster("a", 1), cluster("b", 1)]));
    let second = first.clone().succeeded_by(&activity(8, vec![cluster("b", 1)]));
    let parts = second.parts(Some(first.since()));
    assert_eq!(names(&parts), ["b"]);
    assert!(read(&parts)[0].0.complete);
}

#[test]
fn large_report_comes_in_parts_that_are_bounded() {
    let server = |number: usize| ServerActivity {
        server: format!("10.0.0.{number}:6443"),
        answers: [u64::MAX; 6],
        latency: Latency { buckets: [u64::MAX; 13], sum: 0 },
        in_flight: u32::MAX,
    };
    let one = |number: usize| ClusterActivity {
        servers: (0..60).map(server).collect(),
        ..cluster(&format!("c{number:04}"), 1)
    };
    let page = ActivityPage::default().succeeded_by(&activity(1, (0..200).map(one).collect()));
    let parts = page.parts(None);
    assert!(parts.len() > 2 && parts.iter().all(|part| part.len() <= MAX_PART_BYTES + 4_096), "{}", parts.len());
    let more: Vec<bool> = read(&parts).iter().map(|(part, _)| part.more).collect();
    assert_eq!(more.iter().filter(|more| !**more).count(), 1);
    assert!(!more[more.len() - 1]);
    assert_eq!(names(&parts).len(), 200);
}

#[test]
fn servers_and_clients_beyond_the_bounds_are_counted_together() {
    let server =
        |name: String| ServerActivity { server: name, answers: [0, 0, 1, 0, 0, 0], ..ServerActivity::default() };
    let servers: Vec<_> =
        (0..100).map(|number| server(format!("10.0.0.{number}:1"))).chain([server(OTHER.to_owned())]).collect();
    let talker = |number: u64| Talker { name: format!("u{number}"), requests: number, error: 1, ..Talker::default() };
    let users: Vec<_> =
        (1..=100).map(talker).chain([Talker { name: OTHER.to_owned(), requests: 5, ..Talker::default() }]).collect();
    let top = Some(TopTalkers { users, ..TopTalkers::default() });
    let page =
        ActivityPage::default().succeeded_by(&activity(1, vec![ClusterActivity { servers, top, ..cluster("a", 1) }]));
    let (_, clusters) = read(&page.parts(None)).remove(0);
    let servers = &clusters[0].servers;
    assert_eq!(servers.len(), MAX_SERVERS);
    assert_eq!(servers.iter().flat_map(|one| &one.answers).sum::<u64>(), 101);
    assert_eq!(servers.iter().filter(|one| one.server == OTHER).count(), 1);
    let top = talkers(clusters[0].top.as_ref().unwrap()).unwrap();
    assert_eq!(top.users.len(), MAX_TALKERS + 1);
    assert_eq!((top.users[0].name.as_str(), top.users[0].requests), ("u100", 100));
    let rest = top.users.last().unwrap();
    assert_eq!((rest.name.as_str(), rest.requests, rest.error), (OTHER, (1..=80).sum::<u64>() + 5, 80));
}

fn part_of(clusters: Vec<Bytes>) -> Bytes {
    PartMessage { clusters, ..PartMessage::default() }.encode_to_vec().into()
}

#[test]
fn reader_takes_no_more_than_the_bounds() {
    let large = Bytes::from(vec![0; MAX_CLUSTER_BYTES + 1]);
    assert_eq!(names(&[part_of(vec![large])]), [""; 0]);
    let policy = PolicyMessage { reasons: vec![0; 1_000], refused: vec![1; 2_000], ..PolicyMessage::default() };
    let server = |name: &str| ServerMessage { server: name.to_owned(), ..ServerMessage::default() };
    let message = ClusterMessage {
        cluster: "a".to_owned(),
        policies: vec![policy; 10],
        servers: ["<script>\u{1b}[2J", "a b", "", &"x".repeat(300), "10.0.0.1:6443"].map(server).to_vec(),
        ..ClusterMessage::default()
    };
    let (_, clusters) = read(&[part_of(vec![message.encode_to_vec().into()])]).remove(0);
    assert_eq!(clusters[0].servers.len(), 1);
    assert!(clusters[0].policies.iter().all(|policy| policy.reasons.len() <= 64 && policy.refused.len() <= 64));
    for name in ["", "a b", "a\nb", "é", &"x".repeat(300)] {
        let message = ClusterMessage { cluster: name.to_owned(), ..ClusterMessage::default() };
        assert_eq!(names(&[part_of(vec![message.encode_to_vec().into()])]), [""; 0], "{name}");
    }
    assert!(ReportPart::read(Bytes::from_static(b"\xff\xff\xff")).is_err());
    assert!(
        ReportPart::read(part_of(vec![Bytes::from_static(b"\xff\xff")])).unwrap().clusters().next().unwrap().is_err()
    );
}

#[test]
fn names_of_clients_are_bounded_and_control_no_terminal() {
    let one = |name: &str| TalkerMessage { name: name.to_owned(), requests: 1, ..TalkerMessage::default() };
    let users = vec![one("a\u{1b}[2J\u{202e}b"), one(&"ü".repeat(1_000))];
    let read = talkers(&TalkersMessage { users, ..TalkersMessage::default() }.encode_to_vec()).unwrap();
    assert_eq!(read.users[0].name, "a\u{fffd}[2J\u{fffd}b");
    assert_eq!(read.users[1].name.len(), 128);
    let many = vec![one("a"); 1_000];
    let read = talkers(&TalkersMessage { users: many, ..TalkersMessage::default() }.encode_to_vec()).unwrap();
    assert_eq!(read.users.len(), MAX_TALKERS + 1);
    assert_eq!(talkers(b"\xff"), None);
}

#[test]
fn unknown_fields_are_ignored() {
    let page = ActivityPage::default().succeeded_by(&activity(7, vec![cluster("a", 1)]));
    let mut part = page.parts(None)[0].to_vec();
    // Field 16, as a later release may send it: two bytes of a message of its own.
    part.extend([0x82, 0x01, 0x02, 0x08, 0x01]);
    assert_eq!(names(&[part.into()]), ["a"]);
}

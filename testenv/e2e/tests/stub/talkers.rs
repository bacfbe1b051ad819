//! The clients with the most requests, by name.

use portcullis_filter_config::activity::{Talker, TopTalkers};
use portcullis_harness::client::{H2Client, Outgoing};
use portcullis_harness::deps;
use serde_json::json;

use crate::activity::{SECRET, WATCHED, manifest, of_cluster, until, with_activity};
use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

/// A gateway that shows that many talkers.
fn start(test: &str, shown: u32) -> StubFixture {
    let fixture = StubFixture::without_cluster(test, &with_activity(None));
    fixture.gateway.apply(&manifest(&fixture)).unwrap();
    let users = json!({"users": {"mode": "TopK", "k": shown}});
    fixture.gateway.change_settings(|spec| spec["metrics"] = users).unwrap();
    fixture
}

fn find<'a>(talkers: &'a [Talker], name: &str) -> &'a Talker {
    talkers.iter().find(|talker| talker.name == name).unwrap_or_else(|| panic!("{name} is not in {talkers:?}"))
}

fn requests(talkers: &[Talker]) -> u64 {
    talkers.iter().map(|talker| talker.requests).sum()
}

#[test]
fn clients_are_told_by_name_only_while_asked_for() {
    let fixture = start("talkers", 10);
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    let kubectl = ("user-agent", "kubectl/v1.36.3 (linux/amd64) kubernetes/abc");
    let robot = format!("Bearer {ROBOT}");
    let watch = alice.open("GET", WATCHED, &[("user-agent", kubectl.1.as_bytes())], b"").unwrap();
    for _ in 0..3 {
        assert_eq!(alice.get(PODS, &[kubectl]).unwrap().status, 200);
        assert_eq!(alice.get(SECRET, &[kubectl]).unwrap().status, 429);
        assert_eq!(
            nobody.get(PODS, &[("authorization", &robot), ("user-agent", "\"}\\evil more")]).unwrap().status,
            200
        );
    }
    for token in 0..5 {
        let token = format!("Bearer not-a-token-{token}");
        assert_eq!(nobody.get(PODS, &[("authorization", &token), ("user-agent", "guess/1")]).unwrap().status, 401);
    }
    // Checks of readiness are others of them.
    let refused_strangers = |top: &TopTalkers| {
        let strangers = top.user_agents.iter().find(|talker| talker.name == "(not authenticated)");
        strangers.map(|talker| talker.refusals)
    };
    let is_complete = |top: &TopTalkers| {
        let has = |list: &[Talker], name: &str, requests| {
            list.iter().any(|talker| talker.name == name && talker.requests == requests)
        };
        has(&top.users, "alice", 7) && has(&top.users, "robot", 3) && refused_strangers(top) == Some(5)
    };
    let top = until(&fixture, |cluster| cluster.top.as_ref().is_some_and(is_complete)).top.unwrap();
    let in_front = find(&top.users, "alice");
    // The watch counts when it begins: three lists with it.
    assert_eq!((in_front.lists, in_front.refusals, in_front.error), (4, 3, 0));
    // Envoy 1.38 counts none.
    let counts_bytes = !deps::envoy_versions().last().is_some_and(|version| version.starts_with("1.38."));
    assert_eq!(in_front.bytes > 3 * 100, counts_bytes, "{in_front:?}");
    assert_eq!(find(&top.groups, "dev").requests, 7);
    assert_eq!(find(&top.groups, "system:authenticated").requests, 10);
    let names: Vec<_> = top.users.iter().map(|talker| talker.name.as_str()).collect();
    assert!(names.iter().all(|name| ["alice", "robot", "system:anonymous"].contains(name)), "{names:?}");
    assert_eq!(find(&top.user_agents, "kubectl/v1.36.3").requests, 7);
    assert_eq!(find(&top.user_agents, "\"}\\evil").lists, 3);
    assert!(top.user_agents.iter().all(|talker| talker.name != "guess/1"), "{:?}", top.user_agents);

    drop(watch);
    fixture.gateway.change_settings(|spec| spec["metrics"] = json!({})).unwrap();
    until(&fixture, |cluster| cluster.top.is_none());
}

/// Refused requests, so that no server takes part.
fn invented(test: &str, number: usize) {
    let fixture = start(test, 50);
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let refused = |agent: String| {
        let path = "/apis/apps/v1/namespaces/default/deployments";
        Outgoing::get(path, &[("user-agent", &agent)])
    };
    const EACH: usize = 5_000;
    for turn in 0..number.div_ceil(EACH) {
        let mut requests: Vec<_> = (0..EACH).map(|number| refused(format!("invented-{turn}-{number}/1"))).collect();
        requests.extend((0..EACH / 10).map(|_| refused("busy/1".to_owned())));
        let answers = alice.burst(requests, 50);
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.status == 403)));
    }
    let sent = u64::try_from(number.div_ceil(EACH) * EACH * 11 / 10).unwrap();
    let is_complete = |top: &TopTalkers| top.users.first().is_some_and(|first| first.requests == sent);
    let top = until(&fixture, |cluster| cluster.top.as_ref().is_some_and(is_complete)).top.unwrap();
    assert_eq!((top.user_agents.len(), &*top.user_agents[50].name), (51, "other"));
    let busy = find(&top.user_agents, "busy/1");
    let truth = sent / 11;
    assert!((truth..=truth + busy.error).contains(&busy.requests), "{busy:?}, in truth {truth}");
    assert!(requests(&top.user_agents) >= sent);
    let page = serde_json::to_vec(&of_cluster(&fixture)).unwrap();
    println!("{sent} requests of {number} user agents: {} bytes of activity, {busy:?}", page.len());
    assert!(page.len() < 20_000, "{}", page.len());
}

#[test]
fn invented_user_agents_stay_bounded() {
    invented("talkers-invented", 10_000);
}

#[test]
#[ignore = "takes longer than 30 seconds"]
fn hundred_thousand_invented_user_agents_stay_bounded() {
    invented("talkers-many", 100_000);
}

//! Tenants of instances: each reads the status of its own, and the same refusal of every other name.

use std::time::Instant;

use portcullis_api::status::{ConditionType, InstanceCounts, Served, State};
use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND};

use super::views::{data, numbers, object, status};
use super::*;
use crate::serve::console::access::{Denied, Reader};
use crate::serve::console::state::StatusPart;
use crate::serve::fleet::view::{GatewaySummary, InstanceSummary};
use crate::serve::object_status::{ClusterHolder, ObjectStatus};
use crate::serve::status::NodeReport;

const INSTANCES: [&str; 3] = ["alice", "alice-2", "bob"];

/// Three instances with an Envoy and a cluster each, and a cluster that passes from `alice` to `bob`.
fn divided() -> FixedData {
    let mut all = data(&["alice.test", "alice-2.test", "bob.test", "passes.test"], "words");
    let of = |name: &str, owners: &[&str]| {
        let instances: Vec<String> = owners.iter().map(|one| (*one).to_owned()).collect();
        let holder = ClusterHolder { instance: instances.first().cloned(), is_passing: owners.len() > 1 };
        ObjectStatus { instances, holder, ..object(CLUSTER_KIND, name, Served::Newest, "words of others") }
    };
    let mut objects: Vec<ObjectStatus> = INSTANCES.map(|name| of(&format!("{name}.test"), &[name])).into();
    objects.push(of("passes.test", &["alice", "bob"]));
    objects.extend(INSTANCES.map(|name| object(INSTANCE_KIND, name, Served::Newest, "fine")));
    let mut body = status(objects, "words");
    let node = |name: &str| NodeReport {
        id: format!("{name}/envoy-0"),
        connected: true,
        types: BTreeMap::new(),
        in_sync: true,
        view: Some(format!("instance/{name}")),
        refused: Vec::new(),
    };
    body.nodes = Arc::new(INSTANCES.map(node).into());
    all.status = Arc::new(body);
    let mut fleet = (*all.fleet).clone();
    let gateway = |name: &str| GatewaySummary {
        node: format!("{name}/envoy-0"),
        connected: true,
        in_sync: true,
        reported_seconds_ago: Some(2),
        uptime_seconds: 60,
        numbers: numbers(),
    };
    let not_ready = super::views::cluster("any", "an Envoy rejects it").conditions;
    let instance = |name: &str| InstanceSummary {
        name: name.to_owned(),
        conditions: not_ready.clone(),
        counts: InstanceCounts { gateways: 0, clusters: 1, envoys: 1, gateway_envoys: 0 },
    };
    fleet.gateways.extend(INSTANCES.map(gateway));
    fleet.instances = INSTANCES.map(instance).into();
    all.fleet = Arc::new(fleet);
    all
}

fn site(api: &Arc<FakeApi>) -> Site {
    Site::new(divided(), LoginPolicy::Reviewed(Arc::clone(api) as Arc<dyn Reviewer>))
}

async fn ask(site: &Site, user: &str, path: &str) -> Answer {
    site.get(NEAR, path, &[("authorization", &format!("Bearer {user}-token"))]).await
}

fn names(value: &Value, list: &str, field: &str) -> Vec<String> {
    value[list].as_array().into_iter().flatten().map(|one| one[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn tenant_reads_the_status_of_its_instances_alone() {
    let site = site(&Arc::default());
    let all = ask(&site, "alice", "/status?instance=alice").await;
    assert_eq!(all.status, StatusCode::OK);
    let found = all.json();
    assert_eq!(names(&found, "objects", "name"), ["alice.test", "passes.test", "alice"]);
    assert_eq!(names(&found, "nodes", "id"), ["alice/envoy-0"]);
    for hidden in ["bob", "alice-2", "words", "rejectedNodes"] {
        assert!(!all.text.contains(hidden), "{hidden}: {}", all.text);
    }
    assert_eq!(found["snapshot"], "", "it changes with what others have");
    let second = ask(&site, "alice", "/status?instance=alice-2").await.json();
    assert_eq!(names(&second, "objects", "name"), ["alice-2.test", "alice-2"]);
    let of_bob = ask(&site, "bob", "/status?instance=bob").await.json();
    assert_eq!(
        names(&of_bob, "objects", "name"),
        ["bob.test", "bob"],
        "a cluster that it does not hold yet is not shown"
    );
    let root = ask(&site, "root", "/status?instance=bob").await.json();
    assert_eq!(names(&root, "objects", "name"), ["bob.test", "passes.test", "bob"]);
    assert_eq!(ask(&site, "root", "/status?instance=gone").await.status, StatusCode::NOT_FOUND);
}

/// `alice-gone` is a name to which the reader has the right, and that no instance has.
#[tokio::test]
async fn instance_of_others_and_none_are_one_refusal() {
    let site = site(&Arc::default());
    let expected = ask(&site, "alice", "/status").await;
    assert_eq!(expected.status, StatusCode::FORBIDDEN);
    let long = "a".repeat(300);
    for path in ["instance=bob", "instance=gone", "instance=alice-gone", "instance=", "cluster=bob.test", "cluster="] {
        let found = ask(&site, "alice", &format!("/status?{path}")).await;
        assert_eq!((found.status, &found.text), (expected.status, &expected.text), "{path}");
    }
    for name in ["alice%2Fenvoy-0", "alice%2Bbob", "ALICE", &long] {
        let found = ask(&site, "alice", &format!("/status?instance={name}")).await;
        assert_eq!((found.status, &found.text), (expected.status, &expected.text), "{name}");
    }
    for path in ["instance=alice&instance=bob", "instance=alice&cluster=bob.test"] {
        assert_eq!(ask(&site, "alice", &format!("/status?{path}")).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(site.get(NEAR, "/status?instance=alice", &[]).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn reader_of_an_object_reads_its_line_of_the_status() {
    let site = site(&Arc::default());
    let found = ask(&site, "alice", "/status?cluster=alice.test").await.json();
    assert_eq!(names(&found, "objects", "name"), ["alice.test"]);
    assert_eq!((&found["objects"][0]["instances"], names(&found, "nodes", "id").len()), (&Value::Null, 0));
    let root = ask(&site, "root", "/status?cluster=ALICE.test").await.json();
    assert_eq!(root["objects"][0]["instances"], serde_json::json!(["alice"]));
    assert_eq!(ask(&site, "root", "/status?cluster=gone.test").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn fleet_shows_a_tenant_the_envoys_of_its_instances() {
    let site = site(&Arc::default());
    for (user, own) in [("alice", &INSTANCES[..2]), ("bob", &INSTANCES[2..]), ("carol", &[]), ("alice-2", &["alice-2"])]
    {
        let fleet = ask(&site, user, "/ui/api/fleet").await.json();
        let nodes: Vec<String> = own.iter().map(|name| format!("{name}/envoy-0")).collect();
        assert_eq!((names(&fleet, "gateways", "node"), names(&fleet, "instances", "name")), (nodes, names_of(own)));
        let page = ask(&site, user, "/ui/").await.text;
        for name in INSTANCES {
            let is_shown = page.contains(&format!("<th scope=\"row\">{name}/envoy-0</th>"));
            assert_eq!(is_shown, own.contains(&name), "{user} {name}: {page}");
        }
        assert_eq!(page.contains("an Envoy rejects it"), !own.is_empty(), "{page}");
        assert!(!page.contains("gateway-0") && !page.contains("squares"), "{page}");
    }
    let all = ask(&site, "root", "/ui/api/fleet").await.json();
    assert_eq!((names(&all, "gateways", "node").len(), names(&all, "instances", "name").len()), (5, 3));
}

fn names_of(all: &[&str]) -> Vec<String> {
    all.iter().map(|one| (*one).to_owned()).collect()
}

#[tokio::test]
async fn right_to_an_instance_is_reviewed_again_and_withdrawn() {
    let api = Arc::<FakeApi>::default();
    let (site, now) = (site(&api), Instant::now());
    let reader = reader(&site, now).await;
    let status = async |later| {
        let found = site.console.status(&reader, StatusPart::Instance("alice"), now + Duration::from_secs(later)).await;
        found.map(|found| found.unwrap().nodes.len())
    };
    assert_eq!(status(0).await, Ok(1));
    let reviews = api.access_reviews.load(Ordering::Relaxed);
    assert_eq!(status(59).await, Ok(1));
    assert_eq!(api.access_reviews.load(Ordering::Relaxed), reviews, "believed for a minute");
    api.withdrawn.lock().unwrap().push("alice".to_owned());
    assert_eq!(status(61).await, Err(Denied::Forbidden));
    let fleet = site.console.fleet(&reader, now + Duration::from_secs(61)).await.unwrap();
    assert_eq!(fleet.view.gateways.iter().map(|one| one.node.as_str()).collect::<Vec<_>>(), ["alice-2/envoy-0"]);
    *api.is_away.lock().unwrap() = true;
    assert_eq!(status(400).await, Err(Denied::Unavailable));
}

async fn reader(site: &Site, now: Instant) -> Reader {
    let headers = [("authorization", "Bearer alice-token")];
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let connection = Connection::plain(NEAR.parse::<SocketAddr>().unwrap());
    let found = site.console.access.authenticate(&HeaderMap::from_iter(headers), &connection, now).await;
    found.unwrap_or_else(|denied| panic!("{denied:?}"))
}

/// A reader without a cluster logs in by the right to an instance.
#[tokio::test]
async fn session_begins_by_the_right_to_an_instance() {
    let api = Arc::<FakeApi>::default();
    let site = site(&api);
    api.withdrawn.lock().unwrap().push("bob.test".to_owned());
    let log_in = async |user: &str| site.post(NEAR, "/ui/login", &[], &format!("token={user}-token")).await.status;
    assert_eq!((log_in("bob").await, log_in("carol").await), (StatusCode::SEE_OTHER, StatusCode::FORBIDDEN));
}

/// Names of instances take no place of rights to objects, and are remembered up to a bound.
#[tokio::test]
async fn invented_instances_displace_no_right_to_an_object() {
    let api = Arc::<FakeApi>::default();
    let site = site(&api);
    assert_eq!(ask(&site, "alice", "/ui/api/clusters/alice.test").await.status, StatusCode::OK);
    for number in 0..3_000 {
        let answer = ask(&site, "alice", &format!("/status?instance=x{number}")).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    let before = api.access_reviews.load(Ordering::Relaxed);
    assert_eq!(ask(&site, "alice", "/ui/api/clusters/alice-2.test").await.status, StatusCode::OK);
    assert_eq!(ask(&site, "alice", "/ui/api/clusters/alice-2.test").await.status, StatusCode::OK);
    assert_eq!(api.access_reviews.load(Ordering::Relaxed), before + 1, "a new right is remembered still");
    assert_eq!(ask(&site, "alice", "/status?instance=x0").await.status, StatusCode::FORBIDDEN);
    assert_eq!(api.access_reviews.load(Ordering::Relaxed), before + 1, "128 names are remembered");
    ask(&site, "alice", "/status?instance=x2999").await;
    assert_eq!(api.access_reviews.load(Ordering::Relaxed), before + 2, "and no more");
}

#[test]
fn instance_is_marked_by_its_first_bad_condition() {
    let condition = |kind, status| portcullis_api::status::Condition {
        kind,
        status,
        reason: format!("{kind:?}"),
        ..super::views::cluster("any", "words").conditions.remove(0)
    };
    let instance = |accepted, conflicted, ready| InstanceSummary {
        conditions: [
            (ConditionType::Accepted, accepted),
            (ConditionType::Conflicted, conflicted),
            (ConditionType::Ready, ready),
        ]
        .map(|(kind, status)| condition(kind, status))
        .into(),
        ..InstanceSummary::default()
    };
    for (conditions, expected) in [
        ((State::True, State::False, State::True), None),
        ((State::True, State::True, State::True), Some("Conflicted")),
        ((State::True, State::False, State::Unknown), Some("Ready")),
        ((State::False, State::True, State::False), Some("Accepted")),
    ] {
        let one = instance(conditions.0, conditions.1, conditions.2);
        assert_eq!(one.bad_condition().map(|bad| bad.reason.as_str()), expected, "{conditions:?}");
    }
}

//! A fair queue in front of a real kube-apiserver, whose audit log says when each request came and when it was answered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use portcullis_e2e::{MetricsPage, allow_all};
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{ClientPool, H2Client, H2Frames};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::fixture::KubeFixture;

const SOON: Duration = Duration::from_secs(30);
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Seats, users, and requests that each has under way.
const MAX: usize = 4;
const USERS: usize = 6;
const EACH: usize = 4;
/// Requests that are looked at, at least.
const ENOUGH: usize = 1_000;
/// Requests that a user takes back on a connection: fewer than Envoy cuts it off for.
const TAKEN_BACK: usize = 200;

/// The most requests of a user of that prefix that the server had at a time, by the microseconds of its audit log, and all of them.
fn peak(fixture: &KubeFixture, prefix: &str) -> (i64, usize) {
    let events = fixture.kube.apiserver(0).unwrap().audit_events().unwrap();
    let is_of =
        |event: &Value| event["impersonatedUser"]["username"].as_str().is_some_and(|name| name.starts_with(prefix));
    let mut moments = Vec::new();
    for event in events.iter().filter(|event| is_of(event)) {
        let time = |field: &str| event[field].as_str().unwrap().to_owned();
        // The end, also of a request whose client has gone. Of one microsecond, those that come are first.
        moments.push((time("requestReceivedTimestamp"), -1));
        moments.push((time("stageTimestamp"), 1));
    }
    moments.sort();
    let (mut running, mut most) = (0, 0);
    for (_, step) in &moments {
        running -= step;
        most = most.max(running);
    }
    (most, moments.len() / 2)
}

/// Creates, reads, lists and deletes objects until it is stopped.
fn ask(client: &H2Client, name: &str, stop: &AtomicBool, asked: &AtomicUsize) {
    let (object, list) = (format!("{CONFIGMAPS}/{name}"), format!("{CONFIGMAPS}?limit=1"));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let json: (&str, &[u8]) = ("content-type", b"application/json");
    while !stop.load(Ordering::Acquire) {
        let steps = [("POST", CONFIGMAPS, 201), ("GET", &object, 200), ("GET", &list, 200), ("DELETE", &object, 200)];
        for (method, path, status) in steps {
            let body = if method == "POST" { body.as_bytes() } else { b"" };
            let answer = client.request(method, path, &[json], body).unwrap();
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
            asked.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Has users take back lists that the server works on: some at once, some while they wait or run.
fn take_back(fixture: &KubeFixture, users: &[Identity]) {
    let target = fixture.target().timeout(SOON * wait::deadline_factor());
    std::thread::scope(|scope| {
        for user in users {
            scope.spawn(|| {
                let mut frames = H2Frames::connect(&target.clone().identity(user), 65_535).unwrap();
                let mut open = VecDeque::new();
                for number in 0..TAKEN_BACK {
                    open.push_back(frames.open("GET", &format!("{CONFIGMAPS}?limit=100"), &[], true));
                    if number % 7 == 0 {
                        frames.until_answered(open.pop_back().unwrap()).unwrap();
                    }
                    if open.len() > number % 13 {
                        frames.reset(open.pop_front().unwrap());
                    }
                    frames.send().unwrap();
                }
                open.drain(..).for_each(|stream| frames.reset(stream));
                frames.send().unwrap();
            });
        }
    });
    let queued = || {
        let page = MetricsPage::of(&fixture.gateway);
        let gauges = ["requests_in_flight", "queued_requests"];
        gauges.iter().flat_map(|gauge| page.series_of(gauge)).map(|(_, count)| count).sum::<u64>()
    };
    wait::until("no seat is taken and no request waits", SOON, || (queued() == 0).then_some(())).unwrap();
}

fn users(fixture: &KubeFixture, prefix: &str) -> Vec<Identity> {
    let name = |number| format!("{prefix}-{number}");
    let issue = |number| fixture.kube.client_ca().issue(&CertSpec::client(name(number), ["dev"])).unwrap();
    (0..USERS).map(issue).collect()
}

/// Has users ask as fast as they can until the server has had at least so many requests at a time.
fn storm(fixture: &KubeFixture, prefix: &str, least: usize) -> i64 {
    let users = users(fixture, prefix);
    let (pool, target) = (ClientPool::new(2).unwrap(), fixture.target().timeout(SOON * wait::deadline_factor()));
    let clients: Vec<_> =
        users.into_iter().map(|user| pool.connect(&target.clone().identity(&user)).unwrap()).collect();
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let reached = std::thread::scope(|scope| {
        for (user, client) in clients.iter().enumerate() {
            for number in 0..EACH {
                let (stop, asked) = (&stop, &asked);
                scope.spawn(move || ask(client, &format!("{prefix}-{user}-{number}"), stop, asked));
            }
        }
        let is_enough = || asked.load(Ordering::Acquire) >= ENOUGH && peak(fixture, prefix).0 >= least as i64;
        let reached = wait::until("the server has had so many at a time", SOON * 2, || is_enough().then_some(()));
        stop.store(true, Ordering::Release);
        reached
    });
    let (most, all) = peak(fixture, prefix);
    eprintln!("{prefix}: at most {most} of {all} requests at a time, {} asked at a time", USERS * EACH);
    reached.unwrap();
    assert!(all >= asked.load(Ordering::Acquire), "the audit log has all requests");
    most
}

#[test]
fn server_has_no_more_requests_at_a_time_than_seats() {
    let Some(fixture) = KubeFixture::start("fair-audit", &KubeOptions::default()) else { return };
    storm(&fixture, "free", MAX + 1);
    let queue = json!({"name": "fair", "max": MAX, "queues": 64, "handSize": 6, "timeout": "60s"});
    let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "fair"}]);
    let portcullis = fixture.portcullis(json!({"fairQueues": [queue]}));
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", portcullis).policies(policies)).unwrap();
    assert_eq!(storm(&fixture, "fair", MAX), MAX as i64);
    // A seat is free as soon as its request is taken back, however long the server works on it; none is lost by that.
    take_back(&fixture, &users(&fixture, "gone"));
    let (most, all) = peak(&fixture, "gone");
    eprintln!("gone: {all} of {} requests that were taken back arrived, at most {most} at a time", USERS * TAKEN_BACK);
    assert_eq!(storm(&fixture, "after", MAX), MAX as i64);
}

/// A node whose heartbeat waited would be taken for dead.
#[test]
fn lease_of_a_node_is_renewed_past_a_full_queue() {
    let Some(fixture) = KubeFixture::start("fair-node", &KubeOptions::default()) else { return };
    let group = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "nodes"}, "subjects": [group],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"}});
    let file = fixture.run.write("nodes.yaml", binding.to_string()).unwrap();
    fixture.admin(&["create", "--validate=false", "-f", file.to_str().unwrap()]);
    let queue = json!({"name": "fair", "max": 1, "queues": 1, "handSize": 1, "queueLength": 1, "timeout": "60s"});
    let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "fair"}]);
    let portcullis = fixture.portcullis(json!({"fairQueues": [queue]}));
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", portcullis).policies(policies)).unwrap();

    let target = fixture.target().timeout(SOON * wait::deadline_factor());
    let node = fixture.kube.client_ca().issue(&CertSpec::client("system:node:a", ["system:nodes"])).unwrap();
    let node = H2Client::connect(&target.clone().identity(&node)).unwrap();
    let alice = target.identity(&fixture.alice);
    // One request, of which the body does not end, has the seat; and another one waits.
    let mut frames = H2Frames::connect(&alice, 65_535).unwrap();
    let json = [("content-type", "application/json")];
    let running = frames.open("POST", CONFIGMAPS, &json, false);
    let _waiting = frames.open("GET", &format!("{CONFIGMAPS}?limit=1"), &[], true);
    frames.send().unwrap();
    let queued = || MetricsPage::of(&fixture.gateway).series_of("queued_requests").map(|(_, count)| count).sum::<u64>();
    wait::until("the queue is full", SOON, || (queued() == 1).then_some(())).unwrap();
    let others = H2Client::connect(&alice).unwrap();
    assert_eq!(others.get(&format!("{CONFIGMAPS}?limit=1"), &[]).unwrap().status, 429);

    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:01.000000Z"});
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": spec});
    let json: (&str, &[u8]) = ("content-type", b"application/json");
    // kube-apiserver makes the namespace soon after its start.
    let create = || {
        let answer = node.request("POST", leases, &[json], lease.to_string().as_bytes()).unwrap();
        if answer.status == 201 { Ok(()) } else { Err(answer.text()) }
    };
    wait::until_ok("the node has a lease", SOON, create).unwrap();
    let mut known = node.get(&format!("{leases}/a"), &[]).unwrap().json().unwrap();
    known["spec"]["renewTime"] = json!("2026-01-01T00:00:11.000000Z");
    let renewed = node.request("PUT", &format!("{leases}/a"), &[json], known.to_string().as_bytes()).unwrap();
    assert_eq!(renewed.status, 200, "{}", renewed.text());
    assert_eq!(
        node.get(&format!("{CONFIGMAPS}?limit=1"), &[]).unwrap().status,
        429,
        "it is full for what else the node asks"
    );
    frames.reset(running);
    frames.send().unwrap();
}

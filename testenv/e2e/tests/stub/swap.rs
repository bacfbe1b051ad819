//! Requests that wait for a review while the configuration under them is replaced: each gets its answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::{Crowd, Outgoing};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, TokenEntry};
use serde_json::json;

use crate::world::{NAME, PODS, World};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SOON: Duration = Duration::from_secs(20);
/// How long a review may take, and what a loaded machine may add.
const DEADLINE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(4);
const WAITING: usize = 100;
/// Two requests wait for each review.
const TOKENS: usize = WAITING / 2;

fn start(test: &str, options: &GatewayOptions) -> World {
    let entry = |number| TokenEntry { user: format!("user-{number}"), ..TokenEntry::default() };
    World::with_tokens(test, options, (0..TOKENS).map(|number| (format!("token-{number}"), entry(number))))
}

/// What became of those who waited: status and `Retry-After` (nothing if the connection was closed), and after how long.
type Answers = Vec<(Option<(u16, Option<String>)>, Duration)>;

/// Has a hundred requests wait for reviews, half over HTTP/1.1, then does `meanwhile` and waits for all answers.
fn while_waiting(world: &World, action: Action, meanwhile: impl FnOnce(&AtomicUsize)) -> Answers {
    let is_held = action == Action::Hold;
    world.stub.fault(Fault::new(REVIEWS, action));
    let target = world.gateway.target(NAME).timeout(SOON);
    let crowd = Crowd::new(2).unwrap();
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (target, crowd, answered) = (&target, &crowd, &answered);
        let asking: Vec<_> = (0..WAITING)
            .map(|number| {
                scope.spawn(move || {
                    let header = format!("Bearer token-{}", number % TOKENS);
                    let (started, response) = if number < TOKENS {
                        let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: {header}\r\n\r\n");
                        (Instant::now(), target.raw_request(request.as_bytes()))
                    } else {
                        let client = crowd.connect(target).unwrap();
                        let request = Outgoing::get(PODS, &[("authorization", &header)]);
                        (Instant::now(), client.burst(vec![request], 1).remove(0))
                    };
                    answered.fetch_add(1, Ordering::AcqRel);
                    let answer = response.ok().map(|response| (response.status, response.header("retry-after")));
                    (answer, started.elapsed())
                })
            })
            .collect();
        let all_wait = || {
            let active = world.gateway.envoy().admin().stats("^http\\..*downstream_rq_active$").unwrap();
            let active: u64 = active.iter().filter(|(name, _)| !name.starts_with("http.admin.")).map(|(_, n)| n).sum();
            (active == WAITING as u64 && world.stub.records_for(REVIEWS).len() >= TOKENS).then_some(())
        };
        wait::until("all wait", Duration::from_secs(4), all_wait).unwrap();
        meanwhile(answered);
        if is_held {
            world.stub.clear_faults();
        }
        let answers = asking.into_iter().map(|thread| thread.join().unwrap()).collect();
        world.stub.clear_faults();
        answers
    })
}

fn replace_routes(world: &World) {
    let policies = json!([
        {"rules": [{"verbs": ["delete"], "apiGroups": ["*"], "resources": ["nodes"]}]},
        {"rules": [allow_all()]},
    ]);
    world.gateway.apply(&world.manifest().policies(policies)).unwrap();
}

/// A field of the connection manager: its chain, and the filter's configuration in it, are made anew.
fn replace_chain(world: &World) {
    let modified = || world.gateway.envoy().admin().stat("listener_manager.listener_modified").unwrap();
    let before = modified();
    world.gateway.change_settings(|spec| spec["limits"] = json!({"maxConcurrentStreams": 77})).unwrap();
    assert_eq!(modified(), before + 1);
}

fn draining(world: &World) -> u64 {
    world.gateway.envoy().admin().stat("listener_manager.total_filter_chains_draining").unwrap()
}

#[test]
fn requests_that_wait_outlive_the_routes_and_the_filter_that_they_came_by() {
    let world = start("swap", &GatewayOptions::default());
    let answers = while_waiting(&world, Action::Hold, |answered| {
        replace_routes(&world);
        replace_chain(&world);
        assert!(draining(&world) > 0);
        assert_eq!(answered.load(Ordering::Acquire), 0);
    });
    for (answer, _) in answers {
        assert_eq!(answer, Some((200, None)));
    }
    assert_eq!(world.stub.records_for(PODS).len(), WAITING);
}

#[test]
fn nobody_waits_for_ever_when_the_filter_is_replaced_and_no_answer_comes() {
    let world = start("swap-hanging", &GatewayOptions::default());
    let answers = while_waiting(&world, Action::Hang, |_| {
        replace_routes(&world);
        replace_chain(&world);
    });
    for (answer, took) in answers {
        assert_eq!(answer, Some((503, Some("1".to_owned()))));
        assert!(took < DEADLINE + SLACK, "{took:?}");
    }
    assert!(world.stub.records_for(PODS).is_empty());
}

/// A drain that is shorter than a review ends the connections; the reviews' places must come back all the same.
#[test]
fn a_filter_that_is_destroyed_with_reviews_under_way_takes_nothing_along() {
    let options =
        GatewayOptions { envoy_flags: vec!["--drain-time-s".into(), "1".into()], ..GatewayOptions::default() };
    let world = start("swap-destroyed", &options);
    let answers = while_waiting(&world, Action::Hang, |_| {
        replace_chain(&world);
        wait::until("the filter is destroyed", SOON, || (draining(&world) == 0).then_some(())).unwrap();
    });
    let closed = answers.iter().filter(|(answer, _)| answer.is_none()).count();
    for (answer, took) in answers {
        assert!(matches!(&answer, None | Some((503, Some(_)))), "{answer:?}");
        assert!(took < DEADLINE + SLACK, "{took:?}");
    }
    assert!(world.stub.records_for(PODS).is_empty());
    assert!(closed > 0, "the drain ended before the reviews did");
    // As many again, which is more than there are places if the first ones were lost.
    world.stub.clear();
    for (answer, _) in while_waiting(&world, Action::Hold, |_| ()) {
        assert_eq!(answer, Some((200, None)));
    }
}

#[test]
fn nobody_waits_for_ever_when_the_cluster_goes() {
    let world = start("swap-removed", &GatewayOptions::default());
    let answers = while_waiting(&world, Action::Hold, |_| {
        world.gateway.remove(NAME).unwrap();
        let gone = |status: &serde_json::Value| {
            let objects = status["objects"].as_array().cloned().unwrap_or_default();
            status["nodes"][0]["inSync"] == true && objects.iter().all(|object| object["name"] != NAME)
        };
        world.gateway.plane().wait_status("the cluster is gone", SOON, gone).unwrap();
    });
    for (answer, took) in answers {
        assert_eq!(answer, Some((503, Some("1".to_owned()))));
        assert!(took < DEADLINE + SLACK, "{took:?}");
    }
    assert!(world.stub.records_for(PODS).is_empty());
}

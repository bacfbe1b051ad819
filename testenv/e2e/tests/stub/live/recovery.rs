//! A server that comes back gets its share of new requests, little by little.

use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, OpenLoopLoad, Outcome};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use super::failures::more;
use super::site::Site;
use crate::fixture::PODS;
use crate::health::weight;

const SOON: Duration = Duration::from_secs(20);
const WITHIN: Duration = Duration::from_secs(60);
const BACK: &str = "stub-2";
const WATCHED: &str = "/api/v1/namespaces/default/secrets?watch=true";

fn share(outcome: &Outcome) -> f64 {
    outcome.servers.get(BACK).copied().unwrap_or_default() as f64 / outcome.good() as f64
}

fn sick() -> Action {
    Action::Respond { status: 500, headers: Vec::new(), body: String::new() }
}

/// Takes the last server out and lets it back in; returns when it gets requests, with its share of the next hundred. Nothing
/// if that says nothing: the others, which are healthy since then, are eased in as well, and beside them it may be too old. A
/// fifth is what three servers get of which one has half the weight of the others.
fn out_and_in(site: &Site, load: &OpenLoopLoad, since: Instant) -> Option<f64> {
    site.stubs[2].fault(Fault::new("/readyz", sick()));
    wait::until("it is out", SOON, || (share(&more(load, 100)) == 0.0).then_some(())).unwrap();
    let (cleared, others) = (Instant::now(), weight(since.elapsed()));
    site.stubs[2].clear_faults();
    wait::until("it is back", SOON, || (share(&more(load, 100)) > 0.0).then_some(())).unwrap();
    // Not those among which it came back.
    let first = share(&more(load, 100));
    (weight(cleared.elapsed()) <= 0.43 * others).then_some(first)
}

fn start(test: &str, strategy: &str) -> Site {
    let mut site = Site::start(test);
    let policies = site.manifest.get("/spec/dispatchPolicies").as_array().unwrap().clone();
    let mut policy = policies[0].clone();
    policy["strategy"] = json!(strategy);
    site.set("/spec/dispatchPolicies", json!([policy]));
    site.change("/spec/portcullis/healthCheck", json!({"interval": "1s"}));
    site
}

#[test]
fn server_that_comes_back_is_eased_in() {
    let site = start("eased-in", "RoundRobin");
    let crowd = ClientPool::new(2).unwrap();
    let watches = crowd.watches(&[(site.lanes()[0].clone(), 60)], WATCHED).unwrap();
    let load = crowd.steady(&site.lanes(), &[PODS], 100.0).unwrap();
    wait::until("all get some", SOON, || (more(&load, 100).servers.len() == 3).then_some(())).unwrap();
    let others = Instant::now();
    let first = wait::retry_if_slow("it is younger than the others", || out_and_in(&site, &load, others)).unwrap();
    let since = Instant::now();
    assert!(first < 0.2, "{first} of the first requests");
    let (mut all, mut shares) = (Outcome::default(), Vec::new());
    let are_equal = || {
        let some = more(&load, 300);
        all = std::mem::take(&mut all).and(some.clone());
        shares.push((since.elapsed().as_secs(), share(&some)));
        if some.imbalance(3) < 1.2 { Ok(()) } else { Err(format!("{:?}", some.servers)) }
    };
    let equal = wait::until_ok("equal shares within a minute", WITHIN, are_equal);
    eprintln!("{first:.2} of the first requests; {shares:.2?}");
    equal.unwrap();
    let all = all.and(load.stop().unwrap());
    assert_eq!((all.failed, watches.ended().len()), (0, 0), "{all}");
}

#[test]
fn least_request_does_not_flood_a_server_without_watches() {
    let site = start("least-requests-back", "LeastRequest");
    let crowd = ClientPool::new(2).unwrap();
    let load = crowd.steady(&site.lanes(), &[PODS], 100.0).unwrap();
    site.stubs[2].fault(Fault::new("/readyz", sick()));
    wait::until("it is out", SOON, || (share(&more(&load, 100)) == 0.0).then_some(())).unwrap();
    let lanes: Vec<_> = site.lanes().into_iter().map(|lane| (lane, 40)).collect();
    let watches = crowd.watches(&lanes, WATCHED).unwrap();
    site.stubs[2].clear_faults();
    wait::until("it is back", SOON, || (share(&more(&load, 100)) > 0.0).then_some(())).unwrap();
    let after = more(&load, 300);
    // The better of two out of three, of which it is one: five of nine.
    assert!(share(&after) < 0.75, "{:?}", after.servers);
    assert_eq!((after.failed, watches.ended().len()), (0, 0), "{after}");
}

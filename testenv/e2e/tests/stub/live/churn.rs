//! Changes of every kind, one after the other, while watches are open, requests come, sessions run and uploads go on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, H2Client, LoadProfile, OpenLoopLoad, Outcome, Protocol, Watches};
use portcullis_harness::wait;
use serde_json::json;

use super::changes::CHANGES;
use super::sessions::Sessions;
use super::site::Site;
use crate::fixture::ROBOT;

const SOON: Duration = Duration::from_secs(30);
/// The watched path; nothing else is written.
const WATCHED: &str = "/api/v1/namespaces/default/secrets";
const READ: [&str; 4] =
    ["/api/v1/namespaces/default/pods", "/version", "/apis/apps/v1/namespaces/default/deployments", "/api/v1/nodes"];
/// Streams of one HTTP/2 connection: a few below the gateway's limit.
const SHARING: usize = 95;

struct Plan {
    watches: usize,
    /// Of these, how many have a connection of their own.
    alone: usize,
    per_second: f64,
    sessions: usize,
    /// How many changes are made, and how far apart at least.
    changes: usize,
    apart: Duration,
}

/// Watches of both kinds of users, most of them on shared connections.
fn open_watches(site: &Site, crowd: &ClientPool, plan: &Plan) -> Watches {
    let mut lanes: Vec<(LoadProfile, usize)> = Vec::new();
    let mut shared = plan.watches - plan.alone;
    while shared > 0 {
        let count = shared.min(SHARING);
        let name = format!("watches, HTTP/2, {}", lanes.len());
        let by_token = lanes.len() % 2 == 1;
        let lane =
            if by_token { site.by_token(&name, Protocol::Http2) } else { site.by_certificate(&name, Protocol::Http2) };
        lanes.push((lane, count));
        shared -= count;
    }
    lanes.push((site.by_certificate("watches, HTTP/1.1, certificate", Protocol::Http1), plan.alone.div_ceil(2)));
    lanes.push((site.by_token("watches, HTTP/1.1, token", Protocol::Http1), plan.alone / 2));
    crowd.watches(&lanes, &format!("{WATCHED}?watch=true")).unwrap()
}

/// The source of the watches' events.
struct Events<'a> {
    watches: &'a Watches,
    told: u64,
}

impl Events<'_> {
    /// Creates an object; every watch gets its event once.
    fn tell(&mut self, site: &Site) {
        self.told += 1;
        let (watches, number) = (self.watches, self.told);
        let client = H2Client::connect(&site.target().identity(&site.pki.admin)).unwrap();
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("event-{number}")}});
        let headers = [("content-type", &b"application/json"[..])];
        let answer = client.request("POST", WATCHED, &headers, object.to_string().as_bytes()).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        let told = || (watches.events() == (number, number)).then_some(());
        let outcome = wait::until("every watch is told once", SOON, told);
        assert!(outcome.is_ok(), "{:?} of {number}; ended: {:#?}", watches.events(), watches.ended());
    }
}

/// The results, by change.
struct ChangeResult {
    name: &'static str,
    took: Duration,
    trouble: u64,
    /// How long 99 of 100 requests took, at most.
    most: Duration,
}

fn churn(test: &str, plan: &Plan) {
    let mut site = Site::start(test);
    let crowd = ClientPool::new(2).unwrap();
    let watches = open_watches(&site, &crowd, plan);
    let mut sessions = Sessions::open(&site.target().identity(&site.pki.alice), ROBOT, plan.sessions);
    let load = crowd.steady(&site.lanes(), &READ, plan.per_second).unwrap();
    let mut events = Events { watches: &watches, told: 0 };
    events.tell(&site);
    let started = Instant::now();
    let (told, total) = change_everything(&mut site, plan, &load, &mut events, &mut sessions);
    let took = started.elapsed();
    events.tell(&site);
    let total = total.and(load.stop().unwrap());
    sessions.finish();

    report(plan, &told, took);
    let (ended, events) = (watches.ended(), events.told);
    eprintln!("{total}\n{} watches: {} ended, each was told of {events} events", watches.len(), ended.len());
    assert_eq!(ended.len(), 0, "{ended:#?}");
    assert_eq!(total.failed, 0, "{total}");
    // Below a tenth of what was asked for, the test would no longer be about load.
    assert!(total.rate() > plan.per_second / 10.0, "{total}");
}

/// Makes the changes in turn, and sees after each that sessions and uploads go on.
fn change_everything(
    site: &mut Site,
    plan: &Plan,
    load: &OpenLoopLoad,
    events: &mut Events<'_>,
    sessions: &mut Sessions,
) -> (Vec<ChangeResult>, Outcome) {
    let (mut told, mut total, mut ended) = (Vec::new(), load.take(), 0);
    let started = Instant::now();
    for (number, (name, make)) in CHANGES.iter().cycle().take(plan.changes).enumerate() {
        let begun = Instant::now();
        make(site, number / CHANGES.len());
        let took = begun.elapsed();
        sessions.go_on();
        if number % 10 == 9 {
            events.tell(site);
        }
        let due = plan.apart * u32::try_from(number + 1).unwrap();
        wait::until("the next change is due", plan.apart + SOON, || (started.elapsed() >= due).then_some(())).unwrap();
        let (outcome, ends) = (load.take(), events.watches.ended().len());
        told.push(ChangeResult {
            name,
            took,
            trouble: outcome.failed + (ends - ended) as u64,
            most: outcome.quantile(0.99),
        });
        ended = ends;
        total = total.and(outcome);
        // The servers remember every request.
        site.forget();
    }
    (told, total)
}

fn report(plan: &Plan, told: &[ChangeResult], took: Duration) {
    let mut kinds: BTreeMap<&str, (u32, Duration, u64, Duration)> = BTreeMap::new();
    for ChangeResult { name, took, trouble, most } in told {
        let kind = kinds.entry(name).or_default();
        *kind = (kind.0 + 1, kind.1.max(*took), kind.2 + trouble, kind.3.max(*most));
    }
    eprintln!("{} changes of {} kinds in {took:.1?}, {} watches", told.len(), kinds.len(), plan.watches);
    for (name, (times, slowest, trouble, most)) in kinds {
        eprintln!(
            "  {times} x {name}: in effect after up to {slowest:.0?}, {trouble} failures or ends, \
             99 % answered in {most:.0?}"
        );
    }
}

#[test]
fn no_change_of_any_kind_ends_or_fails_anything() {
    let plan = Plan {
        watches: 120,
        alone: 20,
        per_second: 50.0,
        sessions: 4,
        changes: CHANGES.len(),
        apart: Duration::from_millis(300),
    };
    churn("churn", &plan);
}

#[test]
#[ignore = "two minutes, 3,000 watches"]
fn no_change_a_second_for_two_minutes_ends_or_fails_anything() {
    let plan = Plan {
        watches: 3_000,
        alone: 200,
        per_second: 500.0,
        sessions: 20,
        changes: 120,
        apart: Duration::from_secs(1),
    };
    churn("churn-long", &plan);
}

//! Strangers with bad tokens cost themselves, not the users next door, nor the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::client::{ClientPool, H2Client, Outgoing};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, ROBOT, StopOnDrop, StubFixture};
use crate::resets::active;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const SOON: Duration = Duration::from_secs(20);
/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Strangers' connections, and requests on each at a time.
const CONNECTIONS: usize = 4;
const AT_ONCE: usize = 60;

/// Sends unknown tokens until `is_over`; counts responses by status.
fn strangers(client: &H2Client, lane: usize, is_over: &AtomicBool) -> BTreeMap<u16, usize> {
    let mut statuses = BTreeMap::new();
    for turn in 0.. {
        if is_over.load(Ordering::Acquire) {
            break;
        }
        let stranger = |number| {
            let header = format!("Bearer stranger-{lane}-{turn}-{number}");
            Outgoing::get(PODS, &[("authorization", &header)])
        };
        for timed in client.timed_burst((0..5 * AT_ONCE).map(stranger).collect(), AT_ONCE) {
            let answer = timed.answer.unwrap();
            let is_spread = matches!(answer.retry_after(), Some(1..=4));
            match answer.status {
                401 => assert_eq!(answer.header("retry-after"), None),
                429 => assert!(is_spread, "{answer:?}"),
                // A review that took too long.
                503 if timed.took >= DEADLINE => assert!(is_spread, "{answer:?}"),
                other => panic!("{other}: {}", answer.text()),
            }
            *statuses.entry(answer.status).or_default() += 1;
        }
    }
    statuses
}

/// Asks as one user until `is_over`; every response must be good.
fn regular(client: &H2Client, headers: &[(&str, &str)], is_over: &AtomicBool, asked: &AtomicUsize) -> Duration {
    let mut slowest = Duration::ZERO;
    while !is_over.load(Ordering::Acquire) {
        let started = Instant::now();
        let answer = client.get(PODS, headers).unwrap();
        slowest = slowest.max(started.elapsed());
        // His own review, too, may have taken too long.
        if answer.status == 503 && !headers.is_empty() && started.elapsed() >= DEADLINE {
            continue;
        }
        assert_eq!(answer.status, 200, "after {} good ones: {}", asked.load(Ordering::Acquire), answer.text());
        asked.fetch_add(1, Ordering::AcqRel);
    }
    slowest
}

fn storm(test: &str, length: Duration) {
    let fixture = StubFixture::start(test, &GatewayOptions::default());
    // Short enough for the regular user's token to be reviewed again during the storm.
    let manifest = fixture.manifest().set("/spec/portcullis", json!({"credentialCache": {"tokenTTL": "1s"}}));
    fixture.gateway.apply(&manifest).unwrap();
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let (crowd, bystanders) = (ClientPool::new(2).unwrap(), ClientPool::new(1).unwrap());
    let alice = bystanders.connect(&target.clone().identity(&fixture.pki.alice)).unwrap();
    let robot = bystanders.connect(&target).unwrap();
    let token = format!("Bearer {ROBOT}");
    assert_eq!(robot.get(PODS, &[("authorization", &token)]).unwrap().status, 200);

    let (is_over, asked) = (AtomicBool::new(false), [AtomicUsize::new(0), AtomicUsize::new(0)]);
    let started = Instant::now();
    let (statuses, slowest, edit) = std::thread::scope(|scope| {
        let over = StopOnDrop(&is_over);
        let (is_over, target, crowd) = (&is_over, &target, &crowd);
        let lanes: Vec<_> = (0..CONNECTIONS)
            .map(|lane| scope.spawn(move || strangers(&crowd.connect(target).unwrap(), lane, is_over)))
            .collect();
        let regulars = [
            scope.spawn(|| regular(&alice, &[], is_over, &asked[0])),
            scope.spawn(|| regular(&robot, &[("authorization", &token)], is_over, &asked[1])),
        ];
        let under_way = || (fixture.stub.records_for(REVIEWS).len() > 200).then_some(());
        wait::until("the storm is there", SOON, under_way).unwrap();
        let edited = Instant::now();
        let no_configmaps = json!([{"rules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["-configmaps"]}]}]);
        fixture.gateway.write(&manifest.clone().policies(no_configmaps)).unwrap();
        let watcher = bystanders.connect(&target.clone().identity(&fixture.pki.alice)).unwrap();
        let in_effect = || (watcher.get(CONFIGMAPS, &[]).unwrap().status == 403).then_some(());
        wait::until("the edit is in effect", SOON, in_effect).unwrap();
        let edit = edited.elapsed();
        // The storm did not have to be over for it.
        let asked_before = reviews_of_strangers(&fixture);
        let goes_on = || (reviews_of_strangers(&fixture) > asked_before).then_some(());
        wait::until("the storm goes on", SOON, goes_on).unwrap();
        let long_enough = || {
            let are_served = asked.iter().all(|asked| asked.load(Ordering::Acquire) > 20);
            let is_reviewed_again = reviews_of_robot(&fixture) >= 2;
            (started.elapsed() >= length && are_served && is_reviewed_again).then_some(())
        };
        let regular = wait::until("users next door are served, and reviewed again", length + SOON, long_enough);
        assert!(regular.is_ok(), "{asked:?}, reviewed {} times", reviews_of_robot(&fixture));
        drop(over);
        let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
        for (status, count) in lanes.into_iter().flat_map(|lane| lane.join().unwrap()) {
            *statuses.entry(status).or_default() += count;
        }
        (statuses, regulars.map(|thread| thread.join().unwrap()), edit)
    });
    let took = started.elapsed();
    let rate = statuses.values().sum::<usize>() as f64 / took.as_secs_f64();
    eprintln!(
        "{rate:.0} bad tokens per second for {took:?}: {statuses:?}; reviews of the good one and others: {}; \
         regular requests {asked:?}, slowest {slowest:?}; the edit took {edit:?}",
        fixture.stub.records_for(REVIEWS).len()
    );
    assert!(statuses.contains_key(&401), "{statuses:?}");
    // A client without a review does not wait for theirs: it is at least half as fast as one of them, which mostly is refused at
    // once.
    let turns = statuses.values().sum::<usize>() / (CONNECTIONS * AT_ONCE);
    assert!(2 * asked[0].load(Ordering::Acquire) >= turns, "{asked:?} beside {turns} turns");
    assert!(statuses.contains_key(&429), "the storm is more than the bound takes: {statuses:?}");
    // An alert goes by `review_failed`: these are none, for which the servers were not asked.
    let apart = || {
        let page = MetricsPage::of(&fixture.gateway);
        let of = |reason| page.sum("requests_total", &[("cluster", NAME), ("reason", reason)]);
        let (unchecked, failed) = (of("unchecked"), of("review_failed"));
        if unchecked == statuses[&429] as u64 { Ok(failed) } else { Err(format!("{unchecked}, {statuses:?}")) }
    };
    let failed = wait::until_ok("refusals without a review are apart", SOON, apart).unwrap();
    eprintln!("{} unchecked, {failed} reviews failed", statuses[&429]);
    let users: BTreeSet<_> =
        fixture.client_records().into_iter().map(|record| record.effective.unwrap().username).collect();
    assert_eq!(users, BTreeSet::from(["alice".to_owned(), "robot".to_owned()]));
}

fn is_of_robot(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains(ROBOT)
}

fn reviews_of_robot(fixture: &StubFixture) -> usize {
    fixture.stub.records_for(REVIEWS).iter().filter(|record| is_of_robot(&record.body)).count()
}

fn reviews_of_strangers(fixture: &StubFixture) -> usize {
    fixture.stub.records_for(REVIEWS).iter().filter(|record| !is_of_robot(&record.body)).count()
}

#[test]
fn anonymous_impersonation_leaves_review_slots_to_users() {
    const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let fixture = StubFixture::start("anonymous-impersonation", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let alice = H2Client::connect(&target.clone().identity(&fixture.pki.alice)).unwrap();
    let anonymous = H2Client::connect(&target).unwrap();
    let reviews = || fixture.stub.records_for(ACCESS).len();
    // Every review waits, so that a client with a slot keeps it.
    fixture.stub.fault(Fault::new(ACCESS, Action::Hold));
    let asks = |number: usize| {
        let user = format!("u{number}");
        let groups: Vec<String> = (0..63).map(|group| format!("g{number}-{group}")).collect();
        let groups = groups.iter().map(|group| ("impersonate-group", group.as_str()));
        Outgoing::get(PODS, &groups.chain([("impersonate-user", user.as_str())]).collect::<Vec<_>>())
    };
    std::thread::scope(|scope| {
        let anonymous = scope.spawn(|| anonymous.burst((0..70).map(asks).collect(), 70));
        // The others are refused at once.
        let are_held = || {
            let (active, reviews) = (active(&fixture), reviews());
            if (active, reviews) == (16, 16) { Ok(()) } else { Err(format!("{active} active, {reviews} reviews")) }
        };
        let held = wait::until_ok("anonymous clients hold their slots", SOON, are_held);
        let answer = scope.spawn(|| alice.get(PODS, &[("impersonate-user", "bob")]).unwrap());
        let is_asked =
            wait::until("alice's right is reviewed", SOON, || (answer.is_finished() || reviews() > 16).then_some(()));
        fixture.stub.clear_faults();
        held.unwrap();
        is_asked.unwrap();
        assert_ne!(answer.join().unwrap().status, 429);
        let statuses: Vec<u16> = anonymous.join().unwrap().into_iter().map(|answer| answer.unwrap().status).collect();
        assert!(statuses.contains(&429), "more than the bound asked: {statuses:?}");
    });
}

#[test]
fn storm_of_bad_tokens_leaves_users_and_edits_alone() {
    storm("token-storm", Duration::from_secs(4));
}

#[test]
#[ignore = "half a minute"]
fn long_storm_of_bad_tokens_leaves_users_and_edits_alone() {
    storm("long-token-storm", Duration::from_secs(30));
}

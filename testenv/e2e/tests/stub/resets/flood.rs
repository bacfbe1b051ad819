//! Thousands of requests that are taken back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use portcullis_harness::client::{H2Client, H2Frames};
use portcullis_harness::wait;

use super::{
    ACCESS_REVIEWS, SOON, TOKEN_REVIEWS, WINDOW, all_are_gone, all_are_their_own, nothing_is_counted, start, token,
    user,
};
use crate::fixture::{NAME, ROBOT, StopOnDrop, StubFixture};
use crate::stuffing::resident;

/// Hostile clients at a time, how many connections each opens, and how many requests it takes back on each: fewer than Envoy
/// cuts a connection off for.
const HOSTILE: usize = 4;
const CONNECTIONS: usize = 12;
const TAKEN_BACK: usize = 200;
const USERS: usize = 1_000;
const MOST_MIB: u64 = 32;

/// Sends requests of all users and takes them back: some at once, some a few requests later.
fn take_back(fixture: &StubFixture, lane: usize) {
    let target = fixture.gateway.target(NAME).timeout(SOON.saturating_mul(wait::deadline_factor()));
    for connection in 0..CONNECTIONS {
        let impersonates = connection % 3 == 0;
        let target = if impersonates { target.clone().identity(&fixture.pki.admin) } else { target.clone() };
        let mut frames = H2Frames::connect(&target, WINDOW).unwrap();
        let mut open = Vec::new();
        for turn in 0..TAKEN_BACK {
            let number = (lane * 307 + connection * 41 + turn * 7) % USERS;
            let (user, bearer) = (user(number), format!("Bearer {}", token(number)));
            let stranger = format!("Bearer stranger-{lane}-{connection}-{turn}");
            let header = match (impersonates, turn % 3) {
                (true, _) => ("impersonate-user", user.as_str()),
                (false, 0) => ("authorization", stranger.as_str()),
                (false, _) => ("authorization", bearer.as_str()),
            };
            open.push(frames.open("GET", &format!("/api/v1/namespaces/{user}/pods"), &[header], true));
            if turn % 2 == 0 {
                open.drain(..).for_each(|stream| frames.reset(stream));
            }
            if turn % 5 == 0 {
                frames.send().unwrap();
            }
        }
        frames.send().unwrap();
        if connection % 2 == 0 {
            frames.into_connection().abort().unwrap();
        }
    }
}

fn hostile_clients(fixture: &StubFixture) {
    std::thread::scope(|scope| (0..HOSTILE).for_each(|lane| _ = scope.spawn(move || take_back(fixture, lane))));
}

/// Asks as one user until `is_over`; every response must be good.
fn regular(client: &H2Client, path: &str, headers: &[(&str, &str)], is_over: &AtomicBool, served: &AtomicUsize) {
    while !is_over.load(Ordering::Acquire) {
        let answer = client.get(path, headers).unwrap();
        assert_eq!(answer.status, 200, "after {served:?} good ones: {}", answer.text());
        served.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn thousands_of_requests_taken_back_leave_users_alone() {
    let fixture = start("taken-back", USERS, HOSTILE * CONNECTIONS * TAKEN_BACK);
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let alice = H2Client::connect(&target.clone().identity(&fixture.pki.alice)).unwrap();
    let robot = H2Client::connect(&target).unwrap();
    let (alices, robots) = ("/api/v1/namespaces/alice/pods", "/api/v1/namespaces/robot/pods");
    let token = format!("Bearer {ROBOT}");
    let bearer = [("authorization", token.as_str())];
    assert_eq!(robot.get(robots, &bearer).unwrap().status, 200);
    take_back(&fixture, HOSTILE);
    let before = resident(&fixture);
    let (is_over, served) = (AtomicBool::new(false), [AtomicUsize::new(0), AtomicUsize::new(0)]);
    std::thread::scope(|scope| {
        let over = StopOnDrop(&is_over);
        scope.spawn(|| regular(&alice, alices, &[], &is_over, &served[0]));
        scope.spawn(|| regular(&robot, robots, &bearer, &is_over, &served[1]));
        hostile_clients(&fixture);
        let are_served = || served.iter().all(|served| served.load(Ordering::Acquire) > 20).then_some(());
        let are_served = wait::until("users are served meanwhile", SOON, are_served);
        drop(over);
        are_served.unwrap();
    });
    all_are_gone(&fixture, "taken back");
    nothing_is_counted(&fixture);
    let after = resident(&fixture);
    let resets = fixture.gateway.envoy().admin().stats("downstream_rq_rx_reset").unwrap();
    let resets: u64 = resets.iter().map(|(_, count)| count).sum();
    let arrived = all_are_their_own(&fixture).len();
    let reviews = [TOKEN_REVIEWS, ACCESS_REVIEWS].map(|path| fixture.stub.records_for(path).len());
    eprintln!(
        "{resets} streams were reset, {reviews:?} reviews, {arrived} targets arrived; served meanwhile: {served:?}; \
         {before} KiB before, {after} KiB after"
    );
    assert!(resets > 5_000, "{resets}");
    assert!(reviews.iter().all(|count| *count > 20), "{reviews:?}");
    assert!(after.saturating_sub(before) < MOST_MIB << 10, "{before} KiB before, {after} KiB after");
    assert!(fixture.gateway.envoy().process().is_running());
}

//! Requests that wait for a review that others asked for first, or have given up.

use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, H2Client, H2Frames, Outgoing};
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault};

use super::case::{Case, Leaving, State};
use super::{SOON, TOKEN_REVIEWS, WINDOW, active, all_are_their_own, nothing_is_counted, start, token, user};
use crate::fixture::NAME;

/// Timeout of a review.
const DEADLINE: Duration = Duration::from_secs(5);
/// Users, each with some requests that wait for one review.
const LEADERS: usize = 6;
const FOLLOWERS: usize = 5;

#[test]
fn review_goes_on_for_followers_whose_leader_is_gone() {
    wait::retry_if_slow("reviews end in time", led).unwrap();
}

/// Nothing if a review took so long that it was given up.
fn led() -> Option<()> {
    let fixture = &start("leaders", LEADERS, LEADERS * FOLLOWERS);
    let (started, crowd) = (Instant::now(), ClientPool::new(2).unwrap());
    fixture.stub.fault(Fault::new(TOKEN_REVIEWS, Action::Hold));
    let leaders: Vec<(H2Frames, u32, Leaving)> = (0..LEADERS)
        .map(|number| {
            let case = Case::new(State::TokenReview, number);
            let (frames, stream) = case.over_http2(fixture);
            (frames, stream, [Leaving::Stream, Leaving::Close, Leaving::Abort][number % 3])
        })
        .collect();
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let follows = |number: usize| {
        let bearer = format!("Bearer {}", token(number));
        let path = format!("/api/v1/namespaces/{}/pods?follows", user(number));
        Outgoing::get(&path, &[("authorization", &bearer)])
    };
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..LEADERS)
            .map(|number| {
                let client = crowd.connect(&target).unwrap();
                scope.spawn(move || client.burst((0..FOLLOWERS).map(|_| follows(number)).collect(), FOLLOWERS))
            })
            .collect();
        let count = |expected: usize| {
            let waiting = || (active(fixture) == expected as u64).then_some(());
            wait::until(&format!("{expected} wait"), SOON, waiting)
        };
        let is_in_time = count(LEADERS * (FOLLOWERS + 1)).is_ok();
        let mut kept = Vec::new();
        for (mut frames, stream, leaving) in leaders {
            match leaving {
                Leaving::Stream => {
                    frames.reset(stream);
                    frames.send().unwrap();
                    kept.push(frames);
                }
                Leaving::Close => drop(frames),
                Leaving::Abort => frames.into_connection().abort().unwrap(),
            }
        }
        let is_in_time = is_in_time && count(LEADERS * FOLLOWERS).is_ok() && started.elapsed() < DEADLINE;
        fixture.stub.clear_faults();
        let answers = clients.into_iter().flat_map(|client| client.join().unwrap());
        let statuses: Vec<u16> = answers.map(|answer| answer.unwrap().status).collect();
        is_in_time.then_some(statuses)
    })?;
    nothing_is_counted(fixture);
    let arrived = all_are_their_own(fixture);
    assert!(arrived.iter().all(|target| target.ends_with("?follows")), "{arrived:?}");
    if answers.contains(&503) && started.elapsed() >= DEADLINE {
        return None;
    }
    assert_eq!(answers, [200; LEADERS * FOLLOWERS]);
    Some(())
}

/// Requests of one connection that wait for one review. With eight connections as many left as may wait.
const ON_EACH: usize = 64;

/// A client that gives up and asks again must not keep itself, nor another one with its token, from being answered.
#[test]
fn waiters_that_left_take_no_room_of_a_review() {
    wait::retry_if_slow("the review ends in time", left_waiters).unwrap();
}

/// Nothing if the review took so long that it was given up.
fn left_waiters() -> Option<()> {
    let fixture = start("left-waiters", 1, ON_EACH);
    // With wasm each of the two workers counts for itself.
    let connections = if deps::runs_wasm() { 20 } else { 8 };
    let started = Instant::now();
    fixture.stub.fault(Fault::new(TOKEN_REVIEWS, Action::Hold));
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let (path, bearer) = (format!("/api/v1/namespaces/{}/pods", user(0)), format!("Bearer {}", token(0)));
    let headers = [("authorization", bearer.as_str())];
    // One after the other, so that never as many wait as may.
    for _ in 0..connections {
        let mut frames = H2Frames::connect(&target, WINDOW).unwrap();
        for _ in 0..ON_EACH {
            frames.open("GET", &path, &headers, true);
        }
        frames.send().unwrap();
        let until = |what: &str, expected: u64| {
            wait::until(what, DEADLINE, || (active(&fixture) == expected).then_some(())).ok()
        };
        until("all wait", ON_EACH as u64)?;
        drop(frames);
        until("all have left", 0)?;
    }
    let client = H2Client::connect(&target).unwrap();
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.get(&path, &headers).unwrap());
        let waits = || (active(&fixture) == 1 || asking.is_finished()).then_some(());
        wait::until("it waits", SOON, waits).unwrap();
        fixture.stub.clear_faults();
        asking.join().unwrap()
    });
    let is_in_time = started.elapsed() < DEADLINE;
    if !is_in_time && answer.status != 200 {
        return None;
    }
    assert_eq!(answer.status, 200, "{}", answer.text());
    nothing_is_counted(&fixture);
    is_in_time.then_some(())
}

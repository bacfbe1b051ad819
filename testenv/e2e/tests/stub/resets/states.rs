//! Requests that are left in each state, in each way.

use portcullis_harness::client::H2Client;

use super::case::{Case, Leaving, State};
use super::{MAX, VERSION, all_are_gone, all_are_their_own, nothing_is_counted, start};
use crate::fixture::{NAME, StubFixture};

const OVER_HTTP2: [State; 8] = [
    State::TokenReview,
    State::TokenReviewWithBody,
    State::AccessReview,
    State::Forwarded,
    State::Upload,
    State::Watch,
    State::Refused,
    State::Replaced,
];
const OVER_HTTP1: [State; 9] = [
    State::TokenReview,
    State::TokenReviewWithBody,
    State::AccessReview,
    State::Forwarded,
    State::Upload,
    State::Watch,
    State::SessionReview,
    State::BeforeSession,
    State::Session,
];

/// As many requests as may be in flight are, and no more.
fn all_places_are_there(fixture: &StubFixture) {
    let admin = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.admin)).unwrap();
    let open = || admin.open("GET", "/api/v1/namespaces/admin/pods?watch=true", &[], b"").unwrap();
    let watches: Vec<_> = (0..MAX).map(|_| open()).collect();
    assert!(watches.iter().all(|watch| watch.response.status == 200));
    assert_eq!(open().response.status, 429);
}

/// The next clients are served, on an open connection and on a new one.
fn others_are_served(fixture: &StubFixture, bystander: &H2Client) {
    for client in [bystander, &H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap()] {
        assert_eq!(client.get("/api/v1/namespaces/alice/pods", &[]).unwrap().status, 200);
    }
}

/// Sends one request, leaves it in its state, and has everything answered that it has caused.
fn leave(fixture: &StubFixture, case: &Case, is_http2: bool, leaving: Leaving) {
    let what = format!("{:?}, {leaving:?}, HTTP/{}", case.state, if is_http2 { 2 } else { 1 });
    case.hold(fixture);
    let mut kept = None;
    if is_http2 {
        let (mut frames, stream) = case.over_http2(fixture);
        match leaving {
            Leaving::Stream => {
                frames.reset(stream);
                frames.send().unwrap();
                kept = Some(frames);
            }
            Leaving::Close => drop(frames),
            Leaving::Abort => frames.into_connection().abort().unwrap(),
        }
    } else {
        let connection = case.over_http1(fixture);
        match leaving {
            Leaving::Abort => connection.abort().unwrap(),
            Leaving::Stream | Leaving::Close => drop(connection),
        }
    }
    // Before the review is answered: until then it is left in its state.
    all_are_gone(fixture, &what);
    fixture.stub.clear_faults();
    if let Some(mut frames) = kept {
        let next = frames.open("GET", VERSION, &[], true);
        frames.until_answered(next).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

/// Every state, left in every way.
fn leaves_nothing(test: &str, states: &[State], is_http2: bool) {
    let ways: &[Leaving] =
        if is_http2 { &[Leaving::Stream, Leaving::Close, Leaving::Abort] } else { &[Leaving::Close, Leaving::Abort] };
    let fixture = start(test, states.len() * ways.len(), MAX);
    let bystander = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let pid = fixture.gateway.envoy().process().pid();
    let cases: Vec<(Case, Leaving)> = states
        .iter()
        .flat_map(|state| ways.iter().map(|leaving| (*state, *leaving)))
        .enumerate()
        .map(|(number, (state, leaving))| (Case::new(state, number), leaving))
        .collect();
    for (case, leaving) in &cases {
        leave(&fixture, case, is_http2, *leaving);
        others_are_served(&fixture, &bystander);
    }
    nothing_is_counted(&fixture);
    let arrived = all_are_their_own(&fixture);
    for (case, leaving) in &cases {
        let has_arrived = arrived.contains(&case.path);
        assert_eq!(has_arrived, !case.state.ends_before_upstream(), "{:?}, {leaving:?}: {arrived:?}", case.state);
    }
    all_places_are_there(&fixture);
    assert!(fixture.gateway.envoy().process().is_running() && fixture.gateway.envoy().process().pid() == pid);
    eprintln!("{} requests were left", cases.len());
}

#[test]
fn request_left_over_http2_leaves_nothing_in_any_state() {
    leaves_nothing("left-http2", &OVER_HTTP2, true);
}

#[test]
fn request_left_over_http1_leaves_nothing_in_any_state() {
    leaves_nothing("left-http1", &OVER_HTTP1, false);
}

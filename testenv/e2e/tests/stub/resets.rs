//! Clients that disconnect in every state of a request: by RST_STREAM, by closing the connection, by a TCP reset. Nothing is
//! left of their requests, no other client notices, and no request arrives as another user's.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, MetricsPage, allow_all};
use portcullis_harness::client::{ClientPool, H2Client, H2Frames, Outgoing, TlsConnection, TlsTarget};
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault, TokenEntry};
use serde_json::json;

use crate::fixture::{NAME, ROBOT, StubFixture};
use crate::observe::with_another_request;
use crate::stuffing::resident;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// A path that every user may read.
const VERSION: &str = "/version";
const SOON: Duration = Duration::from_secs(20);
/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Requests that may be in flight: fewer than leave in each test, so that a place that does not come back is missed.
const MAX: usize = 4;
/// The window with which HTTP/2 connections begin.
const WINDOW: u32 = 65_535;

/// The state in which a request is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its token is reviewed.
    TokenReview,
    /// Its token is reviewed, and its body is on its way.
    TokenReviewWithBody,
    /// The right to impersonate is reviewed.
    AccessReview,
    /// It is decided, and the upstream has not answered.
    Forwarded,
    /// It is decided, and its body goes upstream.
    Upload,
    /// Its answer goes on.
    Watch,
    /// It was refused, and its client does not read the answer.
    Refused,
    /// The gateway replaces the upstream's answer, which its client does not read.
    Replaced,
    /// The token of an upgrade is reviewed.
    SessionReview,
    /// The upstream has not answered an upgrade.
    BeforeSession,
    /// An upgrade has become a session.
    Session,
}

/// How its client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    Stream,
    Close,
    Abort,
}

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

impl State {
    fn is_of_token(self) -> bool {
        matches!(self, State::TokenReview | State::TokenReviewWithBody | State::SessionReview)
    }

    fn is_reviewed(self) -> bool {
        self.is_of_token() || self == State::AccessReview
    }

    fn is_session(self) -> bool {
        matches!(self, State::SessionReview | State::BeforeSession | State::Session)
    }

    fn has_body(self) -> bool {
        matches!(self, State::TokenReviewWithBody | State::Upload)
    }

    /// Whether it never gets so far that the upstream sees it.
    fn ends_before_upstream(self) -> bool {
        self.is_reviewed() || self == State::Refused
    }
}

/// One request, sent by a user of its own: the namespace that it asks for has the user's name.
struct Case {
    state: State,
    path: String,
    headers: Vec<(&'static str, String)>,
}

impl Case {
    fn new(state: State, number: usize) -> Self {
        let user = match state {
            _ if state.is_reviewed() => user(number),
            _ => "admin".to_owned(),
        };
        let path = match state {
            State::Watch => format!("/api/v1/namespaces/{user}/pods?watch=true&left={number}"),
            // A name with a slash.
            State::Refused => format!("/api/v1/namespaces/{user}%2F/pods?left={number}"),
            _ if state.is_session() => format!("/api/v1/namespaces/{user}/pods/p/exec?command=x&left={number}"),
            _ => format!("/api/v1/namespaces/{user}/pods?left={number}"),
        };
        let mut headers = Vec::new();
        if state.is_of_token() {
            headers.push(("authorization", format!("Bearer {}", token(number))));
        } else if state == State::AccessReview {
            headers.push(("impersonate-user", user));
        }
        if state.has_body() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        Case { state, path, headers }
    }

    fn method(&self) -> &'static str {
        if self.state.has_body() { "POST" } else { "GET" }
    }

    fn target(&self, fixture: &StubFixture) -> TlsTarget {
        let target = fixture.gateway.target(NAME).timeout(SOON.saturating_mul(wait::deadline_factor()));
        if self.state.is_of_token() { target } else { target.identity(&fixture.pki.admin) }
    }

    fn hold(&self, fixture: &StubFixture) {
        let (path, action) = match self.state {
            State::AccessReview => (ACCESS_REVIEWS, Action::Hold),
            state if state.is_of_token() => (TOKEN_REVIEWS, Action::Hold),
            State::Replaced => (self.path.as_str(), Action::Unauthorized),
            State::Forwarded | State::BeforeSession => (self.path.as_str(), Action::Hold),
            _ => return,
        };
        fixture.stub.fault(Fault::new(path, action));
    }

    /// Waits until the stub has seen what shows the state, if it sees anything.
    fn is_reached(&self, fixture: &StubFixture, reviewed: usize) {
        let is_reached = || match self.state {
            state if state.is_reviewed() => reviews(fixture) > reviewed,
            State::Forwarded | State::Upload | State::BeforeSession => fixture.stub.running() > 0,
            _ => true,
        };
        let reached = wait::until("the state is reached", SOON, || is_reached().then_some(()));
        reached.unwrap_or_else(|error| panic!("{:?}: {error}", self.state));
    }

    fn over_http2(&self, fixture: &StubFixture) -> (H2Frames, u32) {
        let reviewed = reviews(fixture);
        let is_unread = matches!(self.state, State::Refused | State::Replaced);
        let mut frames = H2Frames::connect(&self.target(fixture), if is_unread { 0 } else { WINDOW }).unwrap();
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let stream = frames.open(self.method(), &self.path, &headers, !self.state.has_body());
        if self.state.has_body() {
            frames.data(stream, br#"{"kind":"Pod","#);
        }
        match self.state {
            State::Watch | State::Refused | State::Replaced => frames.until_answered(stream).unwrap(),
            _ => frames.send().unwrap(),
        }
        self.is_reached(fixture, reviewed);
        (frames, stream)
    }

    fn over_http1(&self, fixture: &StubFixture) -> TlsConnection {
        let reviewed = reviews(fixture);
        let mut connection = self.target(fixture).connect().unwrap();
        let lines: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let more = match self.state {
            state if state.is_session() => {
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            }
            state if state.has_body() => "Content-Length: 1000000\r\n\r\n{\"kind\":\"Pod\",",
            _ => "\r\n",
        };
        let head = format!("{} {} HTTP/1.1\r\nHost: {NAME}\r\n{lines}{more}", self.method(), self.path);
        connection.write(head.as_bytes()).unwrap();
        match self.state {
            State::Watch => assert_eq!(connection.read_head().unwrap().status, 200),
            State::Session => {
                assert_eq!(connection.read_head().unwrap().status, 101);
                connection.write(b"ping").unwrap();
                assert_eq!(connection.read_exact(4).unwrap(), b"ping");
            }
            _ => {}
        }
        self.is_reached(fixture, reviewed);
        connection
    }
}

fn user(number: usize) -> String {
    format!("user-{number}")
}

fn token(number: usize) -> String {
    format!("the-token-of-user-{number}")
}

/// A gateway whose stub knows so many tokens, with [`MAX`] requests in flight.
fn start(test: &str, users: usize, max: usize) -> StubFixture {
    let entry = |number| TokenEntry { user: user(number), groups: vec![user(number)], ..TokenEntry::default() };
    let tokens = (0..users).map(|number| (token(number), entry(number)));
    let fixture = StubFixture::with_tokens(test, &GatewayOptions::default(), tokens);
    let schemas = json!({"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": max}}]});
    let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "few"}]);
    fixture.gateway.apply(&fixture.manifest().set("/spec/flowControl", schemas).policies(policies)).unwrap();
    fixture
}

fn reviews(fixture: &StubFixture) -> usize {
    [TOKEN_REVIEWS, ACCESS_REVIEWS].iter().map(|path| fixture.stub.records_for(path).len()).sum()
}

/// Requests of clients that have no whole answer yet.
pub(crate) fn active(fixture: &StubFixture) -> u64 {
    let active = fixture.gateway.envoy().admin().stats("^http\\..*downstream_rq_active$").unwrap();
    active.iter().filter(|(name, _)| !name.starts_with("http.admin.")).map(|(_, count)| count).sum()
}

/// Waits until Envoy and the stub run nothing.
fn all_are_gone(fixture: &StubFixture, what: &str) {
    let are_gone = || {
        let (active, running) = (active(fixture), fixture.stub.running());
        if (active, running) == (0, 0) { Ok(()) } else { Err(format!("{active} active, {running} at the stub")) }
    };
    wait::until_ok(&format!("{what}: all have left"), SOON, are_gone).unwrap();
}

/// Waits until the filter counts nothing: no review, no request in flight.
fn nothing_is_counted(fixture: &StubFixture) {
    let is_nothing = || {
        with_another_request(&fixture.gateway.target(NAME));
        let page = MetricsPage::of(&fixture.gateway);
        let counts = ["reviews_in_flight", "requests_in_flight"].map(|gauge| page.sum(gauge, &[]));
        if counts == [0, 0] { Ok(()) } else { Err(format!("reviews, slots: {counts:?}")) }
    };
    wait::until_ok("no review and no request in flight is counted", SOON, is_nothing).unwrap();
}

/// The namespace that a request asks for.
fn namespace(target: &str) -> &str {
    target.split('/').nth(4).unwrap_or_default()
}

/// Asserts that the stub handled each request as the user whose namespace it asks for, and returns the requests' targets.
fn all_are_their_own(fixture: &StubFixture) -> BTreeSet<String> {
    let records = fixture.client_records();
    for record in &records {
        let Some(user) = &record.effective else { continue };
        let is_own = user.username == namespace(&record.target) || record.target == VERSION;
        assert!(is_own, "{} as {}", record.target, user.username);
    }
    records.into_iter().map(|record| record.target).collect()
}

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

/// Ends the threads of an unwinding test, too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
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
        let over = Over(&is_over);
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

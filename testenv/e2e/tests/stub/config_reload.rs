//! Requests that wait for a review while the configuration under them is replaced: each gets its answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::{ClientPool, H2Client, Response, TlsConnection};
use portcullis_harness::{Result, wait};
use portcullis_stub_apiserver::{Action, Fault, TokenEntry};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SOON: Duration = Duration::from_secs(20);
/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(5);
const WAITING: usize = 100;
/// Two requests wait for each review.
const TOKENS: usize = WAITING / 2;

fn start(test: &str, options: &GatewayOptions) -> StubFixture {
    let entry = |number| TokenEntry { user: format!("user-{number}"), ..TokenEntry::default() };
    StubFixture::with_tokens(test, options, (0..TOKENS).map(|number| (format!("token-{number}"), entry(number))))
}

/// The results of the waiting requests: status and `Retry-After` (nothing if the connection was closed), and the time since the
/// first of them was sent.
type Answers = Vec<(Option<(u16, Option<u32>)>, Duration)>;

/// Whether an answer says that the review failed, and when to come back.
fn may_come_back(answer: Option<(u16, Option<u32>)>) -> bool {
    matches!(answer, Some((503, Some(1..=4))))
}

/// Those who wait.
struct Waiting {
    since: Instant,
    answered: AtomicUsize,
}

impl Waiting {
    /// Whether no review can have been given up yet.
    fn is_in_time(&self) -> bool {
        self.since.elapsed() < DEADLINE
    }
}

/// An open connection of a client that will ask.
enum OpenConnection {
    Http1(Box<TlsConnection>),
    Http2(H2Client),
}

impl OpenConnection {
    fn ask(&mut self, token: usize) -> Result<Response> {
        let header = format!("Bearer token-{token}");
        match self {
            OpenConnection::Http1(connection) => {
                let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: {header}\r\n\r\n");
                connection.write(request.as_bytes())?;
                connection.read_response(false)
            }
            OpenConnection::Http2(client) => client.get(PODS, &[("authorization", &header)]),
        }
    }
}

/// Has a hundred requests wait for reviews, half over HTTP/1.1, then does `meanwhile` and waits for all answers. Nothing if
/// the last of them came when the reviews of the first were given up.
fn while_waiting(fixture: &StubFixture, action: Action, meanwhile: impl FnOnce(&Waiting)) -> Option<Answers> {
    let is_held = action == Action::Hold;
    fixture.stub.fault(Fault::new(REVIEWS, action));
    // No request waits longer than this.
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let crowd = ClientPool::new(2).unwrap();
    let line = |number| match number < TOKENS {
        true => OpenConnection::Http1(Box::new(target.connect().unwrap())),
        false => OpenConnection::Http2(crowd.connect(&target).unwrap()),
    };
    let lines: Vec<OpenConnection> = (0..WAITING).map(line).collect();
    let waiting = Waiting { since: Instant::now(), answered: AtomicUsize::new(0) };
    std::thread::scope(|scope| {
        let waiting = &waiting;
        let ask = |(number, mut line): (usize, OpenConnection)| {
            scope.spawn(move || {
                let response = line.ask(number % TOKENS);
                waiting.answered.fetch_add(1, Ordering::AcqRel);
                // No client is left to give up by itself.
                assert!(!matches!(&response, Err(error) if error.is_timeout()), "{response:?}");
                let answer = response.ok().map(|response| (response.status, response.retry_after()));
                (answer, waiting.since.elapsed())
            })
        };
        let asking: Vec<_> = lines.into_iter().enumerate().map(ask).collect();
        let all_wait = || {
            let active = fixture.gateway.envoy().admin().stats("^http\\..*downstream_rq_active$").unwrap();
            let active: u64 = active.iter().filter(|(name, _)| !name.starts_with("http.admin.")).map(|(_, n)| n).sum();
            let all = active == WAITING as u64 && fixture.stub.records_for(REVIEWS).len() >= TOKENS;
            (all || !waiting.is_in_time()).then_some(all)
        };
        let all_wait = wait::until("all wait", SOON, all_wait).unwrap();
        if all_wait {
            meanwhile(waiting);
        }
        if is_held {
            fixture.stub.clear_faults();
        }
        let answers = asking.into_iter().map(|thread| thread.join().unwrap()).collect();
        fixture.stub.clear_faults();
        all_wait.then_some(answers)
    })
}

/// Every request was served. Nothing if a review was given up because its time was over.
fn all_are_served(answers: Answers) -> Option<()> {
    let is_late =
        |(answer, after): &(Option<(u16, Option<u32>)>, Duration)| *after >= DEADLINE && may_come_back(*answer);
    if answers.iter().any(is_late) {
        return None;
    }
    answers.into_iter().for_each(|(answer, _)| assert_eq!(answer, Some((200, None))));
    Some(())
}

fn replace_routes(fixture: &StubFixture) {
    let policies = json!([
        {"rules": [{"verbs": ["delete"], "apiGroups": ["*"], "resources": ["nodes"]}]},
        {"rules": [allow_all()]},
    ]);
    fixture.gateway.apply(&fixture.manifest().policies(policies)).unwrap();
}

/// A field of the connection manager: its chain, and the filter's configuration in it, are made anew.
fn replace_chain(fixture: &StubFixture) {
    let modified = || fixture.gateway.envoy().admin().stat("listener_manager.listener_modified").unwrap();
    let before = modified();
    fixture.gateway.change_settings(|spec| spec["limits"] = json!({"maxConcurrentStreams": 77})).unwrap();
    assert_eq!(modified(), before + 1);
}

fn draining(fixture: &StubFixture) -> u64 {
    fixture.gateway.envoy().admin().stat("listener_manager.total_filter_chains_draining").unwrap()
}

#[test]
fn waiting_requests_outlive_their_routes_and_filter() {
    let outlive = || {
        let fixture = start("swap", &GatewayOptions::default());
        let answers = while_waiting(&fixture, Action::Hold, |waiting| {
            replace_routes(&fixture);
            replace_chain(&fixture);
            assert!(draining(&fixture) > 0);
            let answered = waiting.answered.load(Ordering::Acquire);
            assert!(answered == 0 || !waiting.is_in_time(), "{answered}");
        })?;
        all_are_served(answers)?;
        assert_eq!(fixture.stub.records_for(PODS).len(), WAITING);
        Some(())
    };
    wait::retry_if_slow("reviews have time", outlive).unwrap();
}

#[test]
fn waiting_requests_end_when_the_filter_is_replaced() {
    let hanging = || {
        let fixture = start("swap-hanging", &GatewayOptions::default());
        let answers = while_waiting(&fixture, Action::Hang, |_| {
            replace_routes(&fixture);
            replace_chain(&fixture);
        })?;
        assert!(answers.iter().all(|(answer, _)| may_come_back(*answer)), "{answers:?}");
        assert!(fixture.stub.records_for(PODS).is_empty());
        Some(())
    };
    wait::retry_if_slow("all wait", hanging).unwrap();
}

/// A drain that is shorter than a review ends the connections; the reviews' places must come back all the same.
#[test]
fn filter_destroyed_amid_reviews_harms_no_request() {
    wait::retry_if_slow("the drain ends before the reviews do", destroyed).unwrap();
}

fn destroyed() -> Option<()> {
    let options =
        GatewayOptions { envoy_flags: vec!["--drain-time-s".into(), "1".into()], ..GatewayOptions::default() };
    let fixture = start("swap-destroyed", &options);
    let mut is_in_time = false;
    let answers = while_waiting(&fixture, Action::Hang, |waiting| {
        replace_chain(&fixture);
        wait::until("the filter is destroyed", SOON, || (draining(&fixture) == 0).then_some(())).unwrap();
        is_in_time = waiting.is_in_time();
    })?;
    let closed = answers.iter().filter(|(answer, _)| answer.is_none()).count();
    for (answer, _) in answers {
        assert!(matches!(&answer, None | Some((503, Some(_)))), "{answer:?}");
    }
    assert!(fixture.stub.records_for(PODS).is_empty());
    assert!(closed > 0 || !is_in_time, "the drain ended before the reviews did");
    // As many again, which is more than there are places if the first ones were lost.
    fixture.stub.clear();
    all_are_served(while_waiting(&fixture, Action::Hold, |_| ())?)?;
    is_in_time.then_some(())
}

#[test]
fn waiting_requests_end_when_the_cluster_is_removed() {
    let removed = || {
        let fixture = start("swap-removed", &GatewayOptions::default());
        let answers = while_waiting(&fixture, Action::Hold, |_| {
            fixture.gateway.remove(NAME).unwrap();
            let gone = |status: &serde_json::Value| {
                let objects = status["objects"].as_array().cloned().unwrap_or_default();
                status["nodes"][0]["inSync"] == true && objects.iter().all(|object| object["name"] != NAME)
            };
            fixture.gateway.plane().wait_status("the cluster is gone", SOON, gone).unwrap();
            fixture.gateway.wait_for_every_worker().unwrap();
        })?;
        assert!(answers.iter().all(|(answer, _)| may_come_back(*answer)), "{answers:?}");
        assert!(fixture.stub.records_for(PODS).is_empty());
        Some(())
    };
    wait::retry_if_slow("all wait", removed).unwrap();
}

//! One request, in the state in which its client leaves it.

use portcullis_harness::client::{H2Frames, TlsConnection, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};

use super::{ACCESS_REVIEWS, SOON, TOKEN_REVIEWS, WINDOW, reviews, token, user};
use crate::fixture::{NAME, StubFixture};

/// The state in which a request is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
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
pub(super) enum Leaving {
    Stream,
    Close,
    Abort,
}

impl State {
    pub(super) fn is_of_token(self) -> bool {
        matches!(self, State::TokenReview | State::TokenReviewWithBody | State::SessionReview)
    }

    pub(super) fn is_reviewed(self) -> bool {
        self.is_of_token() || self == State::AccessReview
    }

    pub(super) fn is_session(self) -> bool {
        matches!(self, State::SessionReview | State::BeforeSession | State::Session)
    }

    pub(super) fn has_body(self) -> bool {
        matches!(self, State::TokenReviewWithBody | State::Upload)
    }

    /// Whether it never gets so far that the upstream sees it.
    pub(super) fn ends_before_upstream(self) -> bool {
        self.is_reviewed() || self == State::Refused
    }
}

/// One request, sent by a user of its own: the namespace that it asks for has the user's name.
pub(super) struct Case {
    pub(super) state: State,
    pub(super) path: String,
    headers: Vec<(&'static str, String)>,
}

impl Case {
    pub(super) fn new(state: State, number: usize) -> Self {
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

    pub(super) fn hold(&self, fixture: &StubFixture) {
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

    pub(super) fn over_http2(&self, fixture: &StubFixture) -> (H2Frames, u32) {
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

    pub(super) fn over_http1(&self, fixture: &StubFixture) -> TlsConnection {
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

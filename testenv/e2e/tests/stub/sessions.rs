//! An upgraded request ends when it has taken as long as the cluster lets sessions take; no other request does.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::client::{TlsConnection, TlsTarget};
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::access_log::line;
use crate::fixture::{NAME, PODS, ROBOT, StubFixture, connect};
use crate::pods::{create_pod, read_until};

const SOON: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(3);

pub(crate) const WEBSOCKET: &str =
    "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
const SPDY: &str = "SPDY/3.1";

fn limited(fixture: &StubFixture, limit: &Value) {
    let mode = json!({"mode": "on"});
    fixture
        .gateway
        .apply(&fixture.manifest().set("/spec/logging", mode).set("/spec/portcullis", limit.clone()))
        .unwrap();
}

/// An upgrade that has become a session, as the request of this user agent.
pub(crate) fn session(
    target: &TlsTarget,
    method: &str,
    path: &str,
    protocol: &str,
    agent: &str,
    credential: &str,
) -> TlsConnection {
    let mut connection = target.connect().unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {NAME}\r\nUser-Agent: {agent}\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
         {credential}\r\n"
    );
    connection.write(request.as_bytes()).unwrap();
    assert_eq!(connection.read_response(false).unwrap().status, 101, "{agent}");
    connection
}

pub(crate) fn is_alive(session: &mut TlsConnection) -> bool {
    session.write(b"ping").is_ok() && session.read_exact(4).is_ok_and(|echo| echo == b"ping")
}

/// Nothing if it has ended and may have: so long after it began.
fn lives(session: &mut TlsConnection, since: Instant, may_end: Duration) -> Option<()> {
    let is_alive = is_alive(session);
    assert!(is_alive || since.elapsed() >= may_end, "it has ended {:?} after it began", since.elapsed());
    is_alive.then_some(())
}

/// It goes on until so long after that.
fn goes_on(session: &mut TlsConnection, since: Instant, time: Duration) {
    let lasted = || {
        assert!(is_alive(session), "it has ended");
        (since.elapsed() >= time).then_some(())
    };
    wait::until("the time is over", time + SOON, lasted).unwrap();
}

fn ended(count: u64) -> impl Fn(&MetricsPage) -> bool {
    move |page| page.sum("requests_total", &[("decision", "ended"), ("reason", "session_limit")]) == count
}

#[test]
fn every_upgrade_ends_by_the_session_limit_and_a_watch_does_not() {
    let fixture = StubFixture::start("session-limit", &GatewayOptions::default());
    limited(&fixture, &json!({"maxSessionDuration": format!("{}s", LIMIT.as_secs())}));
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let robot = fixture.gateway.target(NAME);
    let bearer = format!("Authorization: Bearer {ROBOT}\r\n");
    let client = connect(&alice);
    let mut watch = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();

    let pod = format!("{PODS}/web");
    let begin = |target: &TlsTarget, method: &str, path: &str, protocol: &str, agent: &str, credential: &str| {
        let since = Instant::now();
        let mut session = session(target, method, path, protocol, agent, credential);
        // Nothing but its age ends it.
        let _ = lives(&mut session, since, LIMIT);
        (session, since)
    };
    let sessions = [
        begin(&alice, "GET", &format!("{pod}/exec?command=x"), WEBSOCKET, "exec-ws", ""),
        begin(&alice, "POST", &format!("{pod}/attach"), SPDY, "attach-spdy", ""),
        begin(&robot, "GET", &format!("{pod}/portforward"), WEBSOCKET, "forward-ws", &bearer),
        begin(&robot, "POST", &format!("{pod}/exec?command=x"), SPDY, "exec-spdy", &bearer),
        begin(&alice, "GET", "/api/v1/namespaces/default/services/web/proxy/x", WEBSOCKET, "proxied", ""),
    ];
    let count = sessions.len() as u64;
    for (mut session, since) in sessions {
        // Busy or idle, they end alike; how a client sees it is for the transport to say, but it is no silence.
        let _ = session.write(b"more");
        session.read_to_end().unwrap();
        assert!(since.elapsed() >= LIMIT, "{:?}", since.elapsed());
    }
    create_pod(&client, "after-the-limit").unwrap();
    read_until(&mut watch, "after-the-limit").unwrap();
    let counted = || ended(count)(&MetricsPage::of(&fixture.gateway)).then_some(());
    wait::until("each is counted as ended", SOON, counted).unwrap();
    for agent in ["exec-ws", "exec-spdy", "proxied"] {
        let line = line(&fixture, agent);
        assert_eq!((&line["decision"], &line["reason"]), (&json!("ended"), &json!("session_limit")), "{line}");
        assert_eq!(line["code"], 101, "{line}");
    }
}

#[test]
fn edit_of_the_limit_acts_on_sessions_that_run() {
    wait::retry_if_slow("edits come before sessions are too old", edited).unwrap();
}

fn edited() -> Option<()> {
    let seconds = Duration::from_secs;
    let fixture = StubFixture::start("session-limit-edit", &GatewayOptions::default());
    limited(&fixture, &json!({}));
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let exec = format!("{PODS}/web/exec?command=x");
    let open = |agent| (Instant::now(), session(&alice, "GET", &exec, WEBSOCKET, agent, ""));
    let (begun, mut old) = open("old");
    // Long enough for it to be too old for the limit that comes, and for the limit that went to end it.
    limited(&fixture, &json!({"maxSessionDuration": "4s"}));
    limited(&fixture, &json!({"maxSessionDuration": "1h"}));
    lives(&mut old, begun, seconds(4))?;
    goes_on(&mut old, begun, seconds(6));
    let edited = Instant::now();
    limited(&fixture, &json!({"maxSessionDuration": "5s"}));
    let (newer, mut new) = open("new");
    old.read_to_end().unwrap();
    // Had it been given the time from the edit on, it would have ended later than this.
    (edited.elapsed() < seconds(5)).then_some(())?;
    limited(&fixture, &json!({}));
    lives(&mut new, newer, seconds(5))?;
    goes_on(&mut new, newer, seconds(7));
    let counted = || ended(1)(&MetricsPage::of(&fixture.gateway)).then_some(());
    wait::until("only one has ended", SOON, counted).unwrap();
    Some(())
}

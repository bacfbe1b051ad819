//! The end of a gateway as its clients see it.

use std::time::{Duration, Instant};

use portcullis_harness::agent::is_alive;
use portcullis_harness::client::{H2Client, H2Stream, TlsConnection, TlsTarget};
use portcullis_harness::process::Signal;
use portcullis_harness::{Result, deps, wait};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::{NAME, PODS};
use crate::pods::watch_shows;

const UNREADY: u32 = 3;
const DRAIN: u32 = 9;
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn watch(client: &H2Client) -> H2Stream<'_> {
    let stream = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    assert_eq!(stream.response.status, 200);
    stream
}

fn get(connection: &mut TlsConnection) -> Result<(u16, Option<String>)> {
    connection.write(format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes())?;
    let answer = connection.read_response(false)?;
    Ok((answer.status, answer.header("connection")))
}

/// A word there and back.
fn echoes(tunnel: &mut TlsConnection) -> Result<()> {
    tunnel.write(b"ping")?;
    assert_eq!(tunnel.read_exact(4)?, b"ping");
    Ok(())
}

/// Creates a pod, and sees it in the watch.
/// Nothing of what failed when it may have: so long after the gateway was asked to end.
fn unless_late<T>(asked: Instant, late: Duration, outcome: Result<T>) -> Option<T> {
    outcome.map_err(|error| assert!(asked.elapsed() >= late, "after {:?}: {error}", asked.elapsed())).ok()
}

/// Requests on open connections are answered, and with that sent away; what runs goes on.
fn sent_away(
    target: &TlsTarget,
    kept: &mut TlsConnection,
    [busy, quiet]: [&H2Client; 2],
    watched: &mut H2Stream<'_>,
    tunnel: &mut TlsConnection,
) -> Result<()> {
    wait::until("HTTP/1.1 says that it closes", SOON, || match get(kept) {
        Ok((200, connection)) => connection.filter(|value| value == "close").map(|_| Ok(())),
        Ok((status, _)) => panic!("{status}"),
        Err(error) => Some(Err(error)),
    })??;
    let away = || busy.get(PODS, &[]).map_or(Some(()), |answer| (answer.status != 200).then_some(()));
    wait::until("HTTP/2 takes no more requests", SOON, away)?;
    watch_shows(target, watched, "late")?;
    // It may be closed later than a busy one: Envoy first picks answers at random, and the filter acts after that.
    let told = || quiet.get(PODS, &[]).is_err().then_some(());
    wait::until("a connection with a watch alone is told as well", SOON, told)?;
    echoes(tunnel)
}

fn leaves_in_order(version: Option<String>) {
    wait::retry_if_slow("clients come before it is over", || leave(version.clone())).unwrap();
}

/// Nothing if the machine was so slow that a step came after its time.
fn leave(version: Option<String>) -> Option<()> {
    let fixture = AgentFixture::new("agent-exit");
    let site = fixture
        .site("envoy-0")
        .agent(|options| {
            (options.version, options.shutdown_delay_seconds, options.drain_timeout_seconds) =
                (version, UNREADY, DRAIN);
        })
        .start()
        .unwrap();
    let target = fixture.target(site.address);
    let (busy, quiet) = (H2Client::connect(&target).unwrap(), H2Client::connect(&target).unwrap());
    let (mut watched, mut quietly) = (watch(&busy), watch(&quiet));
    let ask = |path: &str, more: &str| {
        let mut connection = target.connect().unwrap();
        connection.write(format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n{more}\r\n").as_bytes()).unwrap();
        connection
    };
    let mut http1 = ask(&format!("{PODS}?watch=true"), "");
    assert_eq!(http1.read_head().unwrap().status, 200);
    let mut tunnel = ask(&format!("{PODS}/web/exec?command=x"), UPGRADE);
    assert_eq!(tunnel.read_response(false).unwrap().status, 101);
    let mut kept = target.clone().alpn(&["http/1.1"]).connect().unwrap();
    assert_eq!(get(&mut kept).unwrap(), (200, None));
    let envoy = site.agent.envoy_pid().unwrap();

    let asked = Instant::now();
    let [draining, limit] = [UNREADY, UNREADY + DRAIN].map(|seconds| Duration::from_secs(seconds.into()));
    site.agent.process().signal(Signal::Term).unwrap();
    let unready = || (site.agent.status_of("/readyz").ok()? == 503).then_some(());
    let unready = wait::until("the gateway is not ready", SOON, unready)
        .and_then(|()| Ok((site.agent.status_of("/healthz")?, busy.get(PODS, &[])?.status, get(&mut kept)?)));
    let unready = unless_late(asked, draining, unready)?;
    (asked.elapsed() < draining).then_some(())?;
    // The load balancer has not noticed yet: no client is sent away.
    assert_eq!(unready, (200, 200, (200, None)));

    // The last watch may end a second before all does.
    let away = sent_away(&target, &mut kept, [&busy, &quiet], &mut watched, &mut tunnel);
    unless_late(asked, limit - Duration::from_secs(1), away)?;

    // Watches end in order, near the end.
    let mut ends = || {
        for stream in [&mut watched, &mut quietly] {
            while stream.next_chunk(SOON)?.is_some() {}
        }
        while http1.read_chunk()?.is_some() {}
        eprintln!("the last watch ended after {:?}", asked.elapsed());
        assert!(asked.elapsed() + Duration::from_secs(3) > limit, "{:?}", asked.elapsed());
        // A session has all the time.
        echoes(&mut tunnel)
    };
    unless_late(asked, limit, ends())?;
    assert_eq!(tunnel.read_to_end().unwrap(), b"");
    assert!(asked.elapsed() + Duration::from_millis(50) >= limit, "{:?}", asked.elapsed());
    assert_eq!(site.agent.process().wait_exit(SOON).unwrap().code(), Some(0));
    assert!(!is_alive(envoy));
    Some(())
}

#[test]
fn clients_are_sent_away_and_watches_end_in_order() {
    leaves_in_order(None);
}

#[test]
fn older_envoys_leave_as_well() {
    let versions = deps::envoy_compat_versions();
    let threads: Vec<_> =
        versions.into_iter().map(|version| std::thread::spawn(move || leaves_in_order(Some(version)))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn gateway_without_connections_leaves_at_once() {
    let fixture = AgentFixture::new("agent-idle");
    let site = fixture.site("envoy-0").agent(|options| options.drain_timeout_seconds = 60).start().unwrap();
    site.agent.process().signal(Signal::Term).unwrap();
    assert_eq!(site.agent.process().wait_exit(SOON).unwrap().code(), Some(0));
}

#[test]
fn second_signal_ends_at_once() {
    let fixture = AgentFixture::new("agent-twice");
    let site = fixture
        .site("envoy-0")
        .agent(|options| (options.shutdown_delay_seconds, options.drain_timeout_seconds) = (60, 60))
        .start()
        .unwrap();
    let client = H2Client::connect(&fixture.target(site.address)).unwrap();
    let mut stream = watch(&client);
    let envoy = site.agent.envoy_pid().unwrap();
    site.agent.process().signal(Signal::Term).unwrap();
    let noticed = || (site.agent.status_of("/readyz").ok()? == 503).then_some(());
    wait::until("the first signal is noticed", SOON, noticed).unwrap();
    site.agent.process().signal(Signal::Term).unwrap();
    assert_eq!(site.agent.process().wait_exit(SOON).unwrap().code(), Some(0));
    assert!(!is_alive(envoy));
    assert!(stream.next_chunk(SOON).is_err());
}

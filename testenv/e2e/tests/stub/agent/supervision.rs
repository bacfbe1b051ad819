//! Processes that live and end together.

use std::net::TcpStream;

use portcullis_harness::agent::{Agent, AgentOptions, is_alive};
use portcullis_harness::client::H2Client;
use portcullis_harness::process::Signal;
use portcullis_harness::wait;

use super::fixture::{AgentFixture, SOON};
use crate::fixture::PODS;

pub(super) fn signal_envoy(agent: &Agent, signal: &str) {
    let pid = agent.envoy_pid().unwrap().to_string();
    assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

#[test]
fn envoy_that_hangs_is_not_ready_and_ends_all_the_same() {
    let fixture = AgentFixture::new("agent-hangs");
    let site = fixture.site("envoy-0").start().unwrap();
    let readiness = |wanted: u16| (site.agent.status_of("/readyz").ok()? == wanted).then_some(());
    signal_envoy(&site.agent, "-STOP");
    wait::until("the gateway is not ready", SOON, || readiness(503)).unwrap();
    signal_envoy(&site.agent, "-CONT");
    wait::until("the gateway is ready again", SOON, || readiness(200)).unwrap();
    let envoy = site.agent.envoy_pid().unwrap();
    signal_envoy(&site.agent, "-STOP");
    site.agent.process().signal(Signal::Term).unwrap();
    assert_eq!(site.agent.process().wait_exit(SOON * 2).unwrap().code(), Some(137));
    assert!(!is_alive(envoy));
}

#[test]
fn agent_that_is_killed_takes_envoy_along() {
    let fixture = AgentFixture::new("agent-killed");
    let site = fixture.site("envoy-0").start().unwrap();
    let envoy = site.agent.envoy_pid().unwrap();
    assert!(is_alive(envoy));
    site.agent.process().signal(Signal::Kill).unwrap();
    wait::until("Envoy ends", SOON, || (!is_alive(envoy)).then_some(())).unwrap();
    assert!(TcpStream::connect(site.address).is_err());
}

#[test]
fn envoys_own_end_is_the_agents() {
    let fixture = AgentFixture::new("agent-envoy-ends");
    let mut site = fixture.site("envoy-0").start().unwrap();
    site.agent.admin().post("/quitquitquit").unwrap();
    assert_eq!(site.agent.process().wait_exit(SOON).unwrap().code(), Some(0));
    site.agent.start_again().unwrap();
    site.agent.wait_ready(SOON).unwrap();
    signal_envoy(&site.agent, "-KILL");
    assert_eq!(site.agent.process().wait_exit(SOON).unwrap().code(), Some(137));
}

#[test]
fn bad_start_is_told() {
    let fixture = AgentFixture::new("agent-bad-start");
    let site = fixture.site("envoy-0").start().unwrap();
    assert_eq!(H2Client::connect(&fixture.target(site.address)).unwrap().get(PODS, &[]).unwrap().status, 200);
    let mut options = AgentOptions::new([site.plane().xds_socket()]);
    options.envoy_flags.push("--no-such-flag".to_owned());
    // It may have ended before its pages are asked.
    let started = Agent::start(fixture.run.path(), "bad-flag", &options);
    if let Ok(agent) = &started {
        assert_eq!(agent.process().wait_exit(SOON).unwrap().code(), Some(1));
    }
    let log = std::fs::read_to_string(fixture.run.path().join("bad-flag.log")).unwrap();
    assert!(log.contains("no-such-flag"), "{log}");
}

#[test]
fn gateway_without_a_control_plane_is_not_ready() {
    let fixture = AgentFixture::new("agent-alone");
    let (mut planes, _, address) = fixture.site("envoy-0").control_planes().unwrap();
    let plane = &mut planes[0];
    plane.process().stop();
    let agent = Agent::start(fixture.run.path(), "envoy-0", &AgentOptions::new([plane.xds_socket()])).unwrap();
    let answers = || agent.admin().get("/ready").ok();
    wait::until("Envoy answers", SOON, answers).unwrap();
    assert_eq!((agent.status_of("/healthz").unwrap(), agent.status_of("/readyz").unwrap()), (200, 503));
    plane.restart().unwrap();
    agent.wait_ready(SOON).unwrap();
    assert_eq!(H2Client::connect(&fixture.target(address)).unwrap().get(PODS, &[]).unwrap().status, 200);
}

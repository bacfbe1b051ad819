use std::time::{Duration, Instant};

use portcullis_harness::client::plain;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::process::Signal;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::{ControlPlaneUnderTest, SOON, object, snapshot_of};
use super::fixture::SourceFixture;

const NAME: &str = "a.example.com";

fn start(test: &str) -> Option<(SourceFixture, ControlPlaneUnderTest, String)> {
    let fixture = SourceFixture::start(test)?;
    fixture.apply(&fixture.manifest(NAME).to_text());
    let side = fixture.kubernetes_side("plane");
    let served = |status: &Value| object(status, NAME).is_some_and(|told| told["accepted"] == true);
    side.plane.wait_status("the object is served", SOON, served).unwrap();
    side.plane.wait_in_sync(1, SOON).unwrap();
    side.wait_listening(fixture.address);
    side.wait_current(true);
    let snapshot = side.snapshot();
    Some((fixture, side, snapshot))
}

/// Nothing was taken from Envoy, and the next edit acts.
fn nothing_was_lost(fixture: &SourceFixture, side: &ControlPlaneUnderTest, before: &str) {
    assert_eq!(side.snapshot(), before);
    for what in ["cluster_manager.cluster_removed", "listener_manager.listener_removed"] {
        assert_eq!(side.envoy.admin().stat(what).unwrap(), 0, "{what}");
    }
    let edited = fixture.manifest(NAME).set("/spec/portcullis", json!({"requestTimeout": "20s"}));
    fixture.apply(&edited.to_text());
    side.plane.wait_status("the edit acts", SOON, |status| status["snapshot"] != before).unwrap();
    side.plane.wait_in_sync(1, SOON).unwrap();
}

fn frozen(test: &str, least: Duration) {
    let Some((fixture, side, snapshot)) = start(test) else { return };
    let apiserver = fixture.kube.apiserver(0).unwrap().process();
    apiserver.signal(Signal::Stop).unwrap();
    let start = Instant::now();
    let stale = side.wait_current(false);
    // Which it is depends on whether a connection was open.
    let reason = stale["reason"].as_str().unwrap();
    assert!(reason.contains("no answer") || reason.contains("no connection"), "{stale}");
    let lasting = || {
        let source = side.plane.status().unwrap()["source"].clone();
        assert_eq!(source["staleSince"], stale["staleSince"], "the beginning stays: {source}");
        assert_eq!(side.snapshot(), snapshot);
        (start.elapsed() > least).then_some(())
    };
    wait::until("the outage has lasted", least + SOON, lasting).unwrap();
    apiserver.signal(Signal::Cont).unwrap();
    side.wait_current(true);
    side.plane.wait_in_sync(1, SOON).unwrap();
    nothing_was_lost(&fixture, &side, &snapshot);
}

#[test]
fn api_that_hangs_keeps_what_it_told() {
    frozen("hanging-source", Duration::ZERO);
}

#[test]
#[ignore = "the API hangs for more than a minute"]
fn api_that_hangs_for_a_minute_keeps_what_it_told() {
    frozen("hanging-source-long", Duration::from_secs(70));
}

/// The API ends, and comes back; what changed meanwhile arrives.
#[test]
fn api_that_is_gone_keeps_what_it_told() {
    let Some((mut fixture, mut side, snapshot)) = start("source-gone") else { return };
    fixture.kube.apiserver(0).unwrap().process().kill();
    let stale = side.wait_current(false);
    assert!(stale["reason"].as_str().unwrap().contains("no connection"), "{stale}");
    assert_eq!(side.snapshot(), snapshot);
    // A control plane that starts meanwhile has no objects, and sends nothing to Envoy.
    side.plane.restart().unwrap();
    side.wait_current(false);
    assert_eq!(plain::get(side.plane.http_address(), "/healthz").unwrap().status, 200);
    fixture.kube.restart(0).unwrap();
    side.wait_current(true);
    side.plane.wait_in_sync(1, SOON).unwrap();
    nothing_was_lost(&fixture, &side, &snapshot);
}

/// Edits that another kube-apiserver took meanwhile: one object changed, one created, one deleted. A control plane that starts
/// in between serves its saved state.
#[test]
fn changes_during_an_outage_arrive_after_it() {
    let options = KubeOptions { apiservers: 2, ..KubeOptions::default() };
    let Some(mut fixture) = SourceFixture::of("missed", &options) else { return };
    for name in [NAME, "goes.example.com"] {
        fixture.apply(&fixture.manifest(name).to_text());
    }
    let state = fixture.run.join("state");
    let mut side = fixture.kubernetes_side_with("plane", &["--state-dir", state.to_str().unwrap()]);
    let accepted = |status: &Value, name: &str| object(status, name).is_some_and(|told| told["accepted"] == true);
    let before = |status: &Value| accepted(status, NAME) && accepted(status, "goes.example.com");
    side.plane.wait_status("the objects are served", SOON, before).unwrap();
    fixture.kube.apiserver(0).unwrap().process().kill();
    side.wait_current(false);
    let second = Kubeconfig::new(format!("https://{}", fixture.kube.address(1).unwrap()));
    let second = second.ca(fixture.kube.server_ca()).identity(fixture.kube.admin());
    let second = second.write(&fixture.run.join("second.kubeconfig")).unwrap();
    let on_second = |args: &[&str]| fixture.kube.kubectl(&second).args(args).run_ok().unwrap();
    let changed = fixture.manifest(NAME).set("/spec/dispatchPolicies", json!([{"rules": [{}], "strategy": "Random"}]));
    for (file, manifest) in [("changed", changed), ("comes", fixture.manifest("comes.example.com"))] {
        let file = fixture.run.write(file, manifest.to_text()).unwrap();
        on_second(&["apply", "--server-side", "--force-conflicts", "-f", file.to_str().unwrap()]);
    }
    on_second(&["delete", "upstreamcluster", "goes.example.com"]);
    let stale = side.plane.status().unwrap();
    side.plane.restart().unwrap();
    let kept = side.plane.wait_status("what was kept is served", SOON, |status| status["snapshot"] != "").unwrap();
    assert_eq!(snapshot_of(&kept), snapshot_of(&stale));
    assert!(before(&stale) && object(&stale, "comes.example.com").is_none(), "{stale}");
    fixture.kube.restart(0).unwrap();
    let status = side.plane.wait_status("the source is current", SOON, |status| {
        status["source"]["staleSince"].is_null() && object(status, "comes.example.com").is_some()
    });
    let status = status.unwrap();
    assert!(accepted(&status, "comes.example.com") && object(&status, "goes.example.com").is_none(), "{status}");
    // A rule without verbs, which only the change has.
    assert!(object(&status, NAME).unwrap()["warnings"].to_string().contains("verbs"), "{status}");
}

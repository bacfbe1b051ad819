use std::time::Duration;

use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::{SOON, object};
use super::fixture::SourceFixture;

const SHARED: &str = "shared.example.com";

/// The object's own status.
fn status(fixture: &SourceFixture, name: &str) -> Value {
    fixture.stored(name)["status"].clone()
}

fn wait_owns(fixture: &SourceFixture, name: &str, names: &[&str]) {
    wait::until_ok("the status tells its names", SOON, || {
        let told = status(fixture, name);
        if told["names"] == json!(names) { Ok(()) } else { Err(told.to_string()) }
    })
    .unwrap();
}

/// An older object cannot take what a younger one has, not even from a control plane that has just started.
#[test]
fn name_stays_with_whom_it_was_given_over_restarts() {
    let Some(fixture) = SourceFixture::start("ownership") else { return };
    let mut side = fixture.kubernetes_side("kubernetes");
    let with_name = |name: &str, claim: bool| {
        let names: &[&str] = if claim { &[SHARED] } else { &[] };
        let manifest = fixture.manifest(name).set("/spec/secureServing/serverNames", json!(names));
        fixture.apply(&manifest.to_text());
    };
    with_name("a-older.example.com", false);
    wait_owns(&fixture, "a-older.example.com", &["a-older.example.com"]);
    // Creation times have seconds.
    let made = |name: &str| {
        let told = fixture.stored(name);
        told["metadata"]["creationTimestamp"].as_str().unwrap().to_owned()
    };
    wait::until("a second goes by", Duration::from_secs(10), || {
        with_name("b-younger.example.com", true);
        if made("b-younger.example.com") > made("a-older.example.com") {
            return Some(());
        }
        fixture.admin(&["delete", "upstreamcluster", "b-younger.example.com"]);
        None
    })
    .unwrap();
    wait_owns(&fixture, "b-younger.example.com", &["b-younger.example.com", SHARED]);

    with_name("a-older.example.com", true);
    let conflict = |status: &Value| {
        object(status, "a-older.example.com").is_some_and(|one| {
            let message = one["message"].as_str().unwrap_or_default();
            one["accepted"] == true && one["reason"] == "Conflicted" && message.contains("b-younger.example.com")
        })
    };
    side.plane.wait_status("the older object is told the owner", SOON, conflict).unwrap();
    side.plane.restart().unwrap();
    let status = side.plane.wait_status("a new control plane says the same", SOON, conflict).unwrap();
    assert_eq!(object(&status, "b-younger.example.com").unwrap()["reason"], "Accepted");
    wait_owns(&fixture, "a-older.example.com", &["a-older.example.com"]);

    // A name that is given up is free.
    with_name("b-younger.example.com", false);
    wait_owns(&fixture, "a-older.example.com", &["a-older.example.com", SHARED]);
}

/// Neither a younger object nor an older one takes a name of another object, by a name or by a wildcard, and a control plane
/// that knows only the objects stored in Kubernetes decides the same.
#[test]
fn names_below_wildcards_stay_with_whom_they_were_given() {
    let Some(fixture) = SourceFixture::start("ownership-wildcard") else { return };
    let mut side = fixture.kubernetes_side("kubernetes");
    let claim = |name: &str, names: &[&str]| {
        fixture.apply(&fixture.manifest(name).set("/spec/secureServing/serverNames", json!(names)).to_text());
    };
    claim("z-owner.example.com", &["*.a.example.com"]);
    wait_owns(&fixture, "z-owner.example.com", &["z-owner.example.com", "*.a.example.com"]);
    // First by name, and perhaps as old: what counts is who had it.
    claim("a-thief.example.com", &["x.a.example.com", "*.b.example.com"]);
    claim("y.a.example.com", &[]);
    wait_owns(&fixture, "a-thief.example.com", &["a-thief.example.com", "*.b.example.com"]);
    // The other way around: who had a name keeps it from an older object's wildcard.
    claim("late.example.com", &["own.late.example.com"]);
    wait_owns(&fixture, "late.example.com", &["late.example.com", "own.late.example.com"]);
    claim("z-owner.example.com", &["*.a.example.com", "*.late.example.com"]);
    let wide = ["z-owner.example.com", "*.a.example.com", "*.late.example.com"];
    wait_owns(&fixture, "z-owner.example.com", &wide);

    let told = |status: &Value| {
        let is = |name: &str, accepted: bool, reason: &str| {
            object(status, name).is_some_and(|one| one["accepted"] == accepted && one["reason"] == reason)
        };
        is("a-thief.example.com", true, "Conflicted")
            && is("y.a.example.com", false, "Conflicted")
            && is("late.example.com", true, "Accepted")
            && is("z-owner.example.com", true, "Accepted")
    };
    let status = side.plane.wait_status("who has what is told", SOON, told).unwrap();
    let message = object(&status, "y.a.example.com").unwrap()["message"].to_string();
    assert!(message.contains("*.a.example.com, which belongs to the UpstreamCluster z-owner.example.com"), "{message}");
    side.plane.restart().unwrap();
    side.plane.wait_status("a new control plane says the same", SOON, told).unwrap();
    wait_owns(&fixture, "late.example.com", &["late.example.com", "own.late.example.com"]);
    wait_owns(&fixture, "z-owner.example.com", &wide);
}

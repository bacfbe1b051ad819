use std::time::Duration;

use portcullis_harness::wait;
use serde_json::{Value, json};

use super::side::{SOON, object};
use super::world::World;

const SHARED: &str = "shared.example.com";

/// What the object's own status says.
fn status(world: &World, name: &str) -> Value {
    world.kubectl(&["get", "upstreamcluster", name]).json().unwrap()["status"].clone()
}

fn wait_owns(world: &World, name: &str, names: &[&str]) {
    wait::until_ok("the status tells its names", SOON, || {
        let told = status(world, name);
        if told["names"] == json!(names) { Ok(()) } else { Err(told.to_string()) }
    })
    .unwrap();
}

/// An older object cannot take what a younger one has, not even from a control plane that has just started.
#[test]
fn a_name_stays_with_whom_it_was_given_over_restarts() {
    let Some(world) = World::start("ownership") else { return };
    let mut side = world.kubernetes_side("kubernetes");
    let with_name = |name: &str, claim: bool| {
        let names: &[&str] = if claim { &[SHARED] } else { &[] };
        let manifest = world.manifest(name).set("/spec/secureServing/serverNames", json!(names));
        world.apply(&manifest.to_text());
    };
    with_name("a-older.example.com", false);
    wait_owns(&world, "a-older.example.com", &["a-older.example.com"]);
    // Creation times have seconds.
    let made = |name: &str| {
        let told = world.kubectl(&["get", "upstreamcluster", name]).json().unwrap();
        told["metadata"]["creationTimestamp"].as_str().unwrap().to_owned()
    };
    wait::until("a second goes by", Duration::from_secs(10), || {
        with_name("b-younger.example.com", true);
        if made("b-younger.example.com") > made("a-older.example.com") {
            return Some(());
        }
        world.admin(&["delete", "upstreamcluster", "b-younger.example.com"]);
        None
    })
    .unwrap();
    wait_owns(&world, "b-younger.example.com", &["b-younger.example.com", SHARED]);

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
    wait_owns(&world, "a-older.example.com", &["a-older.example.com"]);

    // What is given up is free.
    with_name("b-younger.example.com", false);
    wait_owns(&world, "a-older.example.com", &["a-older.example.com", SHARED]);
}

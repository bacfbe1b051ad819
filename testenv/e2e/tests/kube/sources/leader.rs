use std::time::Duration;

use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::process::Signal;
use portcullis_harness::wait;

use super::side::{SOON, snapshot_of};
use super::world::{NAMESPACE, World};

/// Longer than a Lease.
const EXPIRY: Duration = Duration::from_secs(40);

fn replica(world: &World, name: &str) -> ControlPlane {
    let flags = world.kubernetes_flags(&world.settings.display().to_string());
    let dir = world.run.make_dir(name).unwrap();
    ControlPlane::start_from(&dir, &flags.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
}

fn leads(plane: &ControlPlane) -> bool {
    plane.status().is_ok_and(|status| status["source"]["leader"] == true)
}

fn wait_leads(plane: &ControlPlane, deadline: Duration) {
    wait::until("it leads", deadline, || leads(plane).then_some(())).unwrap();
}

fn wait_current(plane: &ControlPlane) {
    let holds = |status: &serde_json::Value| status["source"]["staleSince"].is_null();
    plane.wait_status("the source is current", SOON, holds).unwrap();
}

#[test]
fn one_replica_leads_and_hands_over_when_it_ends() {
    let Some(world) = World::start("leader") else { return };
    let mut leader = replica(&world, "first");
    wait_leads(&leader, SOON);
    let mut other = replica(&world, "second");
    wait_current(&other);
    assert!(leads(&leader) && !leads(&other));
    both_serve(&world, &leader, &other);
    wait::retry_if_slow("nobody waits until the Lease runs out", || {
        let is_at_once = hands_over(&world, &mut leader, &other);
        std::mem::swap(&mut leader, &mut other);
        is_at_once.then_some(())
    })
    .unwrap();
    let transitions = lease(&world, "leaseTransitions");
    assert!(transitions.parse::<u32>().unwrap() >= 1, "{transitions}");
    // A leader that is frozen leads no more when it wakes up.
    leader.process().signal(Signal::Stop).unwrap();
    wait_leads(&other, EXPIRY);
    leader.process().signal(Signal::Cont).unwrap();
    wait::until("the frozen one knows", SOON, || (!leads(&leader)).then_some(())).unwrap();
    assert!(leads(&other));
}

/// Ends the leader and starts it again: whether the other one led before the Lease would have run out.
fn hands_over(world: &World, leader: &mut ControlPlane, other: &ControlPlane) -> bool {
    let [had, renewed, lasts] =
        ["holderIdentity", "renewTime", "leaseDurationSeconds"].map(|field| lease(world, field));
    leader.process().signal(Signal::Term).unwrap();
    leader.process().wait_exit(SOON).unwrap();
    assert_ne!(lease(world, "holderIdentity"), had);
    wait_leads(other, SOON);
    leader.restart().unwrap();
    wait_current(leader);
    assert!(leads(other) && !leads(leader));
    let acquired = lease(world, "acquireTime");
    let waited = (of_day(&acquired) - of_day(&renewed)).rem_euclid(86_400.0);
    eprintln!("renewed at {renewed} for {lasts} s, acquired at {acquired}");
    waited < lasts.parse().unwrap()
}

/// Seconds of the day of a time like `2024-02-29T23:59:59.000001Z`.
fn of_day(time: &str) -> f64 {
    let clock = time.trim_end_matches('Z').split('T').next_back().unwrap();
    clock.split(':').fold(0.0, |so_far, part| 60.0 * so_far + part.parse::<f64>().unwrap())
}

/// A field of the Lease's `spec`.
fn lease(world: &World, field: &str) -> String {
    let path = format!("jsonpath={{.spec.{field}}}");
    world.admin(&["get", "lease", "portcullis", "-n", NAMESPACE, "-o", &path])
}

/// With either leader, every replica serves the same.
fn both_serve(world: &World, first: &ControlPlane, second: &ControlPlane) {
    let before = snapshot_of(&first.status().unwrap());
    world.apply(&world.manifest("a.example.com").to_text());
    let now = |plane: &ControlPlane| {
        let status = plane.wait_status("the object acts", SOON, |status| snapshot_of(status) != before).unwrap();
        snapshot_of(&status)
    };
    assert_eq!(now(first), now(second));
}

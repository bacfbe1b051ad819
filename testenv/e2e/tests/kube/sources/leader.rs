use std::time::Duration;

use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::process::Signal;
use portcullis_harness::wait;

use super::control_plane::{SOON, snapshot_of};
use super::fixture::{NAMESPACE, SourceFixture};

/// Longer than a Lease.
const EXPIRY: Duration = Duration::from_secs(40);

fn replica(fixture: &SourceFixture, name: &str) -> ControlPlane {
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let dir = fixture.run.make_dir(name).unwrap();
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
    let Some(fixture) = SourceFixture::start("leader") else { return };
    let mut leader = replica(&fixture, "first");
    wait_leads(&leader, SOON);
    let mut other = replica(&fixture, "second");
    wait_current(&other);
    assert!(leads(&leader) && !leads(&other));
    both_serve(&fixture, &leader, &other);
    wait::retry_if_slow("nobody waits until the Lease runs out", || {
        let is_at_once = hands_over(&fixture, &mut leader, &other);
        std::mem::swap(&mut leader, &mut other);
        is_at_once.then_some(())
    })
    .unwrap();
    let transitions = lease(&fixture, "leaseTransitions");
    assert!(transitions.parse::<u32>().unwrap() >= 1, "{transitions}");
    // A leader that is frozen leads no more when it wakes up.
    leader.process().signal(Signal::Stop).unwrap();
    wait_leads(&other, EXPIRY);
    leader.process().signal(Signal::Cont).unwrap();
    wait::until("the frozen one knows", SOON, || (!leads(&leader)).then_some(())).unwrap();
    assert!(leads(&other));
}

/// Ends the leader and starts it again: whether the other one led before the Lease would have run out.
fn hands_over(fixture: &SourceFixture, leader: &mut ControlPlane, other: &ControlPlane) -> bool {
    let [had, renewed, lasts] =
        ["holderIdentity", "renewTime", "leaseDurationSeconds"].map(|field| lease(fixture, field));
    leader.process().signal(Signal::Term).unwrap();
    leader.process().wait_exit(SOON).unwrap();
    assert_ne!(lease(fixture, "holderIdentity"), had);
    wait_leads(other, SOON);
    leader.restart().unwrap();
    wait_current(leader);
    assert!(leads(other) && !leads(leader));
    let acquired = lease(fixture, "acquireTime");
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
fn lease(fixture: &SourceFixture, field: &str) -> String {
    let path = format!("jsonpath={{.spec.{field}}}");
    fixture.admin(&["get", "lease", "portcullis", "-n", NAMESPACE, "-o", &path])
}

/// With either leader, every replica serves the same.
fn both_serve(fixture: &SourceFixture, first: &ControlPlane, second: &ControlPlane) {
    let before = snapshot_of(&first.status().unwrap());
    fixture.apply(&fixture.manifest("a.example.com").to_text());
    let now = |plane: &ControlPlane| {
        let status = plane.wait_status("the object acts", SOON, |status| snapshot_of(status) != before).unwrap();
        snapshot_of(&status)
    };
    assert_eq!(now(first), now(second));
}

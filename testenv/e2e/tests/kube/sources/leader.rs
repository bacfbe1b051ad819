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
    let mut first = replica(&world, "first");
    wait_leads(&first, SOON);
    let second = replica(&world, "second");
    wait_current(&second);
    assert!(leads(&first) && !leads(&second));
    both_serve(&world, &first, &second);
    let holder = |field: &str| {
        let path = format!("jsonpath={{.spec.{field}}}");
        world.admin(&["get", "lease", "portcullis", "-n", NAMESPACE, "-o", &path])
    };
    let had = holder("holderIdentity");
    first.process().signal(Signal::Term).unwrap();
    first.process().wait_exit(SOON).unwrap();
    // Nobody has to wait until the Lease runs out.
    assert_ne!(holder("holderIdentity"), had);
    wait_leads(&second, SOON);
    first.restart().unwrap();
    wait_current(&first);
    assert!(leads(&second) && !leads(&first));
    let transitions = holder("leaseTransitions");
    assert!(transitions.parse::<u32>().unwrap() >= 1, "{transitions}");
    // A leader that is frozen leads no more when it wakes up.
    second.process().signal(Signal::Stop).unwrap();
    wait_leads(&first, EXPIRY);
    second.process().signal(Signal::Cont).unwrap();
    wait::until("the frozen one knows", SOON, || (!leads(&second)).then_some(())).unwrap();
    assert!(leads(&first));
}

/// Whoever leads: every replica serves the same.
fn both_serve(world: &World, first: &ControlPlane, second: &ControlPlane) {
    let before = snapshot_of(&first.status().unwrap());
    world.apply(&world.manifest("a.example.com").to_text());
    let now = |plane: &ControlPlane| {
        let status = plane.wait_status("the object acts", SOON, |status| snapshot_of(status) != before).unwrap();
        snapshot_of(&status)
    };
    assert_eq!(now(first), now(second));
}

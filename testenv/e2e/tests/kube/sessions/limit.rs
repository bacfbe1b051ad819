use std::time::{Duration, Instant};

use portcullis_harness::process::Process;
use portcullis_harness::wait;
use serde_json::json;

use super::place::{Place, Protocol, SOON, Way};

const LIMIT: Duration = Duration::from_secs(4);

/// A forgotten session ends, and its command with it. Sessions that began later go on, and so do watches and followed logs.
pub(super) fn ends_forgotten_sessions(place: &Place) {
    let limited = json!({"maxSessionDuration": "4s"});
    let told = place.fixture.portcullis(limited.clone());
    place.fixture.gateway.apply(&place.fixture.manifest().set("/spec/portcullis", told)).unwrap();
    place.fixture.gateway.apply(&place.impersonating().set("/spec/portcullis", limited)).unwrap();
    let user = place.certificate();
    let ways: Vec<Way<'_>> = Protocol::ALL.into_iter().flat_map(|protocol| place.through(&user, protocol)).collect();
    std::thread::scope(|scope| {
        for way in &ways {
            scope.spawn(|| forgotten(way));
        }
    });
}

fn forgotten(way: &Way<'_>) {
    let began = Instant::now();
    let exec =
        way.kubectl(["exec", &way.pod, "--", "sh", "-c", "echo $$ > id; echo began; sleep 1000"]).spawn().unwrap();
    let forward = way.kubectl(["port-forward", &way.pod, ":7"]).spawn().unwrap();
    let logs = way.kubectl(["logs", "-f", &way.pod]).spawn().unwrap();
    let watch = way.kubectl(["get", "pods", "-w", "-o", "name"]).spawn().unwrap();
    for (running, said) in [(&exec, "began"), (&forward, "Forwarding"), (&logs, "started"), (&watch, &*way.pod)] {
        says(way, running, said);
    }
    let id = std::fs::read_to_string(way.place.fixture.kube.node().unwrap().directory_of(&way.pod).join("id")).unwrap();
    // Over SPDY kubectl takes a session that broke off for one that succeeded, whichever side ended it.
    let status = exec.wait_exit(LIMIT + SOON).unwrap();
    assert!(began.elapsed() >= LIMIT, "{way}: {status} after {:?}", began.elapsed());
    assert_eq!(status.code(), Some(i32::from(way.protocol == Protocol::WebSocket)), "{way}");
    let process = std::path::PathBuf::from(format!("/proc/{}", id.trim()));
    wait::until(&format!("{way}: what it ran has ended"), SOON, || (!process.exists()).then_some(())).unwrap();
    wait::until(&format!("{way}: the forwarding has ended"), SOON, || (!forward.is_running()).then_some(())).unwrap();

    // Long after the limit of the first.
    let later = || {
        let began = Instant::now();
        let said = way.kubectl(["exec", &way.pod, "--", "sh", "-c", "sleep 2; echo whole"]).run_ok();
        let is_whole = said.as_ref().is_ok_and(|said| said == "whole\n");
        assert!(is_whole || began.elapsed() >= LIMIT, "{way}: {said:?} after {:?}", began.elapsed());
        is_whole.then_some(())
    };
    wait::retry_if_slow(&format!("{way}: one that is short enough"), later).unwrap();
    for running in [&logs, &watch] {
        assert!(running.is_running() && running.log().is_empty(), "{way}: {}", running.log());
    }
    assert!(began.elapsed() > LIMIT + Duration::from_secs(2), "{way}");
}

fn says(way: &Way<'_>, running: &Process, text: &str) {
    let said = || running.stdout().contains(text).then_some(()).ok_or_else(|| running.stdout() + &running.log_tail());
    wait::until_ok(&format!("{way}: {text} is said"), SOON, said).unwrap();
}

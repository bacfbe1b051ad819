//! Requests that take long, and connections that last long.

use std::fs;
use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, LoadProfile, Protocol as Http};
use portcullis_harness::process::Process;
use portcullis_harness::wait;

use super::place::{IMPERSONATING, Place, SOON, Way};
use super::{browser, copy};
use crate::fixture::NAME;

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Longer than any timeout of Envoy's, the longest of which is five minutes.
const IDLE: Duration = Duration::from_secs(7 * 60);
const EXECS: usize = 10;

#[test]
#[ignore = "copies 1.6 GB"]
fn hundred_megabytes_are_copied_both_ways() {
    let Some(place) = Place::start("large-copies") else { return };
    for way in place.ways_through() {
        let (here, began) = (way.file("large"), Instant::now());
        fs::write(&here, copy::noise(100 << 20)).unwrap();
        let back = copy::there_and_back(&way, &here, Duration::from_secs(300));
        assert!(fs::read(&here).unwrap() == fs::read(&back).unwrap(), "{way}");
        eprintln!("{way}: 100 MB there and back in {:.1?}", began.elapsed());
        for file in [here, back, place.fixture.kube.node().unwrap().directory_of(&way.pod).join("copied")] {
            fs::remove_file(file).unwrap();
        }
    }
}

#[test]
#[ignore = "lets seven minutes pass"]
fn idle_streams_last_seven_minutes() {
    let Some(place) = Place::start("idle") else { return };
    let ways = place.ways_through();
    let idle: Vec<_> = ways.iter().map(IdleSession::start).collect();
    // kubectl sends a ping now and then; a browser does not.
    place.fixture.kube.run_pod("browsed").unwrap();
    let token = place.fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    let mut silent: Vec<_> = [NAME, IMPERSONATING]
        .map(|host| browser::exec(&place.fixture.gateway.target(host).timeout(SOON), host, &token, browser::CAT, 101))
        .into();
    let began = Instant::now();
    wait::until("time passes", IDLE + SOON, || {
        assert!(idle.iter().all(IdleSession::is_running), "after {:?}", began.elapsed());
        (began.elapsed() > IDLE).then_some(())
    })
    .unwrap();
    for one in &idle {
        one.speaks();
    }
    for session in &mut silent {
        browser::say(session, b"awake\n");
        assert_eq!(browser::hear(session, 1), "awake\n");
    }
}

/// A watch, a log and a session in which nothing happens.
struct IdleSession<'a> {
    way: &'a Way<'a>,
    exec: Process,
    watch: Process,
    log: Process,
}

impl<'a> IdleSession<'a> {
    fn start(way: &'a Way<'a>) -> Self {
        let exec = way.kubectl(["exec", "-i", &way.pod, "--", "cat"]).stdin_piped().spawn().unwrap();
        let watch = way.kubectl(["get", "configmaps", "-w", "-o", "name"]).spawn().unwrap();
        let log = way.kubectl(["logs", "-f", &way.pod]).spawn().unwrap();
        exec.write(b"before\n").unwrap();
        let idle = IdleSession { way, exec, watch, log };
        idle.says(&idle.exec, "before\n");
        idle.says(&idle.log, "started\n");
        idle
    }

    fn is_running(&self) -> bool {
        [&self.exec, &self.watch, &self.log].into_iter().all(Process::is_running)
    }

    fn says(&self, running: &Process, text: &str) {
        let said =
            || running.stdout().contains(text).then_some(()).ok_or_else(|| running.stdout() + &running.log_tail());
        wait::until_ok(&format!("{}: {text}", self.way), SOON, said).unwrap();
    }

    fn speaks(&self) {
        self.exec.write(b"after\n").unwrap();
        self.says(&self.exec, "after\n");
        let name = format!("seen-by-{}", self.way.pod);
        self.way.place.fixture.admin(&["create", "configmap", &name]);
        self.says(&self.watch, &name);
        assert!(self.watch.log().is_empty(), "{}: {}", self.way, self.watch.log());
        let attached = self.way.kubectl(["attach", "-i", &self.way.pod]).stdin_piped().spawn().unwrap();
        attached.write(b"again\n").unwrap();
        self.says(&self.log, "out again\n");
    }
}

#[test]
#[ignore = "a minute of load"]
fn ten_execs_and_ordinary_traffic_do_not_meet() {
    let Some(place) = Place::start("ten-execs") else { return };
    let crowd = ClientPool::new(2).unwrap();
    let lanes = [NAME, IMPERSONATING].into_iter().flat_map(|name| {
        let target = place.fixture.gateway.target(name).identity(&place.fixture.alice).timeout(SOON);
        [Http::Http1, Http::Http2].map(|protocol| LoadProfile::new(format!("{name}-{protocol:?}"), &target, protocol))
    });
    let load = crowd.steady(&lanes.collect::<Vec<_>>(), &[PODS], 60.0).unwrap();
    // Each says a megabyte, slowly.
    let script = "i=0; while [ $i -lt 50 ]; do head -c 20000 /dev/zero | tr '\\0' x; sleep 0.1; i=$((i+1)); done";
    for way in &place.ways_through() {
        let execs: Vec<_> =
            (0..EXECS).map(|_| way.kubectl(["exec", &way.pod, "--", "sh", "-c", script]).spawn().unwrap()).collect();
        for exec in execs {
            assert!(exec.wait_exit(SOON * 3).unwrap().success(), "{way}: {}", exec.log());
            assert_eq!(exec.stdout().len(), 1_000_000, "{way}");
        }
    }
    let outcome = load.stop().unwrap();
    eprintln!("{outcome}");
    assert_eq!(outcome.failed, 0, "{outcome}");
    assert!(outcome.good() > 500, "{outcome}");
}

//! Edits of the facts that a server relies on, while clients ask to be another user: two generations never meet.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, H2Client, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::json;

use super::motion::{Edit, Motion};
use super::sessions::Sessions;
use crate::fixture::{NAME, ROBOT};

const SOON: Duration = Duration::from_secs(60);
/// As whom clients ask to act, who may not.
const WANTED: [(&str, &str); 2] = [("impersonate-user", "root"), ("impersonate-group", "system:masters")];

/// A user that the servers know, by certificate or token.
#[derive(Clone, Copy)]
struct Who<'a> {
    name: &'a str,
    target: &'a TlsTarget,
    token: Option<&'a str>,
}

impl Who<'_> {
    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.name)
    }

    fn credential(&self) -> Option<(&'static str, String)> {
        self.token.map(|token| ("authorization", format!("Bearer {token}")))
    }

    /// Asks to read as another user, over and over. The responses do not matter: the servers record the user of each request.
    fn reads(&self, over: &AtomicBool, count: &AtomicU64) {
        let credential = self.credential();
        let own = credential.iter().map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<(&str, &str)> = own.chain(WANTED).collect();
        let mut client = None;
        while !over.load(Ordering::Acquire) {
            let connected = client.take().map_or_else(|| H2Client::connect(self.target), Ok);
            let Ok(connected) = connected else { continue };
            if connected.get(&self.pods(), &headers).is_ok() {
                count.fetch_add(1, Ordering::AcqRel);
                client = Some(connected);
            }
        }
    }

    /// Opens a WebSocket; what is answered.
    fn exec(&self, headers: &[(&str, &str)]) -> Result<u16, String> {
        let credential = self.credential();
        let own = credential.iter().map(|(name, value)| (*name, value.as_str()));
        let lines: String =
            own.chain(headers.iter().copied()).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "GET {}/web/exec?command=sh HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n",
            self.pods()
        );
        let mut connection = self.target.connect().map_err(|error| error.to_string())?;
        connection.write(head.as_bytes()).map_err(|error| error.to_string())?;
        connection.read_response(false).map(|answer| answer.status).map_err(|error| error.to_string())
    }

    fn execs(&self, over: &AtomicBool, count: &AtomicU64) {
        while !over.load(Ordering::Acquire) {
            if self.exec(&WANTED).is_ok() {
                count.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Opens WebSockets as oneself, over and over; each must open.
    fn behaves(&self, over: &AtomicBool, count: &AtomicU64) -> Vec<String> {
        let mut failed = Vec::new();
        while !over.load(Ordering::Acquire) {
            match self.exec(&[]) {
                Ok(101) => {}
                other => failed.push(format!("{}: {other:?}", self.name)),
            }
            count.fetch_add(1, Ordering::AcqRel);
        }
        failed
    }
}

/// Makes the edits while some clients ask to be another user, and others behave.
fn in_motion(test: &str, edits: usize, step: impl Fn(&mut Motion, usize)) {
    let mut motion = Motion::start(test);
    let (by_certificate, by_token) = (motion.target().identity(&motion.pki.alice), motion.target());
    let alice = Who { name: "alice", target: &by_certificate, token: None };
    let robot = Who { name: "robot", target: &by_token, token: Some(ROBOT) };
    let crowd = ClientPool::new(2).unwrap();
    let of = |name: &str| {
        let index = usize::from(name == "robot");
        motion.lanes().into_iter().skip(index).step_by(2).collect::<Vec<_>>()
    };
    let loads = [alice, robot].map(|who| crowd.steady(&of(who.name), &[&format!("{}?", who.pods())], 30.0).unwrap());
    let (over, asked, behaved) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut sessions = Sessions::open_in("alice", &by_certificate, None, 4);
    let failed = std::thread::scope(|scope| {
        for who in [alice, robot] {
            let (over, asked) = (&over, &asked);
            scope.spawn(move || who.reads(over, asked));
            scope.spawn(move || who.execs(over, asked));
        }
        let behaving = [alice, robot].map(|who| {
            let (over, behaved) = (&over, &behaved);
            scope.spawn(move || who.behaves(over, behaved))
        });
        // Whatever fails here, the threads must end.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..edits {
                step(&mut motion, number);
                sessions.go_on();
            }
        }));
        over.store(true, Ordering::Release);
        let failed: Vec<_> = behaving.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        outcome.map_err(std::panic::resume_unwind).map(|()| failed).unwrap()
    });
    let total = loads.map(|load| load.stop().unwrap());
    sessions.finish();
    let (of_others, handled) = motion.believed();
    let behaved = behaved.into_inner() + total.iter().map(|one| one.statuses.values().sum::<u64>()).sum::<u64>();
    let failures = failed.len() as u64 + total.iter().map(|one| one.failed).sum::<u64>();
    eprintln!(
        "{edits} edits: {} asked to be somebody else, {} of {handled} handled as somebody else; {behaved} behaved, {failures} failed",
        asked.load(Ordering::Acquire),
        of_others.len(),
    );
    assert!(asked.into_inner() > 0 && behaved > 0);
    assert!(
        of_others.is_empty(),
        "{} of {handled} as somebody else: {:#?}",
        of_others.len(),
        &of_others[..of_others.len().min(10)]
    );
    assert_eq!(failures, 0, "{} {} {failed:#?}", total[0], total[1]);
}

#[test]
fn mode_edits_grant_no_other_identity() {
    in_motion("generations", 8, |motion, number| {
        motion.edit(Edit { by_headers: number % 2 == 1, ..Edit::default() });
        motion.gateway.apply(&motion.manifest).unwrap();
    });
}

#[test]
fn mode_edits_beside_a_mute_server_grant_no_other_identity() {
    in_motion("generations-mute", 2, |motion, number| {
        motion.edit(Edit { by_headers: number % 2 == 1, has_mute: true, ..Edit::default() });
        motion.gateway.apply(&motion.manifest).unwrap();
        motion.edit(Edit { by_headers: number % 2 == 1, ..Edit::default() });
        motion.gateway.apply(&motion.manifest).unwrap();
    });
}

#[test]
fn mode_edits_amid_a_killed_control_plane_grant_no_identity() {
    in_motion("generations-killed", 2, |motion, number| {
        motion.edit(Edit { by_headers: number % 2 == 1, has_mute: true, ..Edit::default() });
        motion.gateway.write(&motion.manifest).unwrap();
        let warming =
            || (motion.gateway.envoy().admin().stat("cluster_manager.warming_clusters").ok()? > 0).then_some(());
        wait::until("Envoy warms clusters", SOON, warming).unwrap();
        motion.gateway.plane().process().kill();
        motion.gateway.restart_control_plane().unwrap();
        motion.edit(Edit { by_headers: number % 2 == 1, ..Edit::default() });
        motion.gateway.apply(&motion.manifest).unwrap();
    });
}

/// The servers take their time for the handshakes of the new pools.
#[test]
fn mode_edits_beside_a_slow_server_grant_no_other_identity() {
    in_motion("generations-slow", 4, |motion, number| {
        let before = motion.slow.relayed();
        motion.edit(Edit { by_headers: number % 2 == 1, has_slow: true, ..Edit::default() });
        motion.gateway.apply(&motion.manifest).unwrap();
        let reached = || (motion.slow.relayed() > before).then_some(());
        wait::until("the slow server is reached", SOON, reached).unwrap();
    });
}

/// Deletes the object and makes it anew, or edits the servers' authorities or the subject of the gateway's credential.
#[test]
fn edits_of_object_authority_and_subject_grant_no_other_identity() {
    in_motion("generations-facts", 9, |motion, number| {
        if number == 0 {
            motion.edit(Edit::default());
        }
        motion.succeed(number);
        motion.gateway.apply(&motion.manifest).unwrap();
    });
}

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// How long a review may take.
const REVIEWED: Duration = Duration::from_secs(5);

/// Asks with a token while reviews are held, and changes the mode meanwhile; nothing if that took longer than reviews may.
fn ask_over_the_change(by_headers: bool) -> Option<()> {
    let mut motion = Motion::start("generations-waiting");
    if !by_headers {
        motion.edit(Edit { by_headers, ..Edit::default() });
        motion.gateway.apply(&motion.manifest).unwrap();
    }
    let target = motion.target();
    let robot = Who { name: "robot", target: &target, token: Some(ROBOT) };
    let hold = |stub: &StubServer| stub.fault(Fault::new(REVIEWS, Action::Hold));
    motion.stubs.iter().for_each(hold);
    let since = Instant::now();
    let (read, exec) = std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let token = format!("Bearer {ROBOT}");
            H2Client::connect(robot.target).unwrap().get(&robot.pods(), &[("authorization", &token)]).unwrap().status
        });
        let exec = scope.spawn(|| robot.exec(&[]));
        let asked = || motion.stubs.iter().any(|stub| !stub.records_for(REVIEWS).is_empty()).then_some(());
        wait::until("the token is asked about", SOON, asked).unwrap();
        motion.edit(Edit { by_headers: !by_headers, ..Edit::default() });
        motion.gateway.apply(&motion.manifest).unwrap();
        motion.stubs.iter().for_each(StubServer::clear_faults);
        (read.join().unwrap(), exec.join().unwrap())
    });
    let in_time = since.elapsed() < REVIEWED;
    let (of_others, handled) = motion.believed();
    assert!(of_others.is_empty(), "{of_others:#?}");
    in_time.then(|| assert_eq!((read, exec, handled), (200, Ok(101), 2)))
}

#[test]
fn waiting_request_outlives_a_mode_edit_as_its_own_sender() {
    for by_headers in [false, true] {
        wait::retry_if_slow("the change came before the review's end", || ask_over_the_change(by_headers)).unwrap();
    }
}

/// A header that the servers begin to trust, as the gateway's settings say.
const LEGACY: (&str, &str) = ("legacy-group", "system:masters");

/// Asks on a connection; over which of the servers' connections the request came, and whether [`LEGACY`] was with it.
fn way(motion: &Motion, client: &H2Client, number: usize) -> Option<((usize, u64), bool)> {
    let target = format!("/api/v1/namespaces/alice/pods?number={number}");
    client.get(&target, &[LEGACY]).ok()?;
    motion.stubs.iter().enumerate().find_map(|(server, stub)| {
        let record = stub.records().into_iter().find(|record| record.target == target)?;
        Some(((server, record.connection), record.header(LEGACY.0).is_some()))
    })
}

/// The routes lead a connection that was there before to the pools of the new names, where its listener lets them pass.
#[test]
fn name_reserved_by_an_edit_stays_out_of_open_connections() {
    let motion = Motion::start("generations-reserved");
    let alice = motion.target().identity(&motion.pki.alice);
    let clients: Vec<_> = (0..8).map(|_| H2Client::connect(&alice).unwrap()).collect();
    let mut number = 0;
    let mut ways = || {
        let ask = |client: &H2Client| {
            number += 1;
            way(&motion, client, number)
        };
        clients.iter().map(ask).collect::<Vec<_>>()
    };
    let mut before = BTreeSet::new();
    for _ in 0..10 {
        before.extend(ways().into_iter().map(|way| way.unwrap()));
    }
    assert!(before.iter().all(|(_, has_legacy)| *has_legacy), "nothing reserves it yet: {before:?}");
    motion.gateway.change_settings(|spec| spec["requestHeaderNames"] = json!({"reserved": [LEGACY.0]})).unwrap();
    let is_old = |way: &((usize, u64), bool)| before.iter().any(|(connection, _)| *connection == way.0);
    let moved = wait::until("open connections lead to the new pools", SOON, || {
        let ways: Vec<_> = ways().into_iter().flatten().collect();
        let moved: Vec<_> = ways.iter().filter(|way| !is_old(way)).copied().collect();
        (moved.len() == ways.len()).then_some(moved)
    })
    .unwrap();
    assert!(!moved.is_empty(), "no connection outlived the edit");
    assert!(moved.iter().all(|(_, has_legacy)| !has_legacy), "{moved:?}");
}

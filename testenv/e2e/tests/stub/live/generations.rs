//! Edits of what a server believes about the gateway, while clients ask to be somebody else: two generations never meet.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{Crowd, H2Client, Lane, Protocol, TlsTarget};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, SharedStore, StubServer};
use serde_json::json;

use super::sessions::Sessions;
use super::site::{PATIENCE, servers};
use crate::world::{NAME, Pki, ROBOT};

const SOON: Duration = Duration::from_secs(60);
/// As whom clients ask to act, who may not.
const WANTED: [(&str, &str); 2] = [("impersonate-user", "root"), ("impersonate-group", "system:masters")];
/// How the gateway is known to the servers as somebody who may impersonate, and as a front proxy.
const IMPERSONATOR: &str = "portcullis";
const FRONT_PROXY: &str = "front-proxy";

/// A gateway in front of two servers that know it in both modes, by a certificate for each.
struct Motion {
    gateway: Gateway,
    stubs: Vec<StubServer>,
    front_proxy: Identity,
    manifest: Manifest,
    pki: Pki,
    /// A server that takes connections and says nothing.
    mute: TcpListener,
    _run: RunDir,
}

impl Motion {
    fn start(test: &str, bootstrap_flags: &[&str]) -> Self {
        let run = RunDir::new(test).unwrap();
        let pki = Pki::new();
        let proxies = Ca::new("front proxies").unwrap();
        let store = SharedStore::default();
        let stubs = (0..2).map(|number| stub(&pki, &proxies, &store, number)).collect::<Vec<_>>();
        let bootstrap_flags = bootstrap_flags.iter().map(|flag| (*flag).to_owned()).collect();
        let gateway = Gateway::start(&run, &GatewayOptions { bootstrap_flags, ..GatewayOptions::default() }).unwrap();
        let manifest = Manifest::new(NAME, stubs.iter().map(StubServer::address))
            .serving(&gateway.serving_identity(NAME).unwrap(), &pki.client_ca);
        let mut motion = Motion {
            gateway,
            stubs,
            front_proxy: proxies.issue(&CertSpec::client(FRONT_PROXY, [""; 0])).unwrap(),
            manifest,
            pki,
            mute: TcpListener::bind("127.0.0.1:0").unwrap(),
            _run: run,
        };
        motion.edit(Edit { by_headers: true, has_mute: false });
        motion.gateway.apply(&motion.manifest).unwrap();
        motion
    }

    /// Changes the manifest without applying it.
    fn edit(&mut self, edit: Edit) {
        let (mode, identity) = match edit.by_headers {
            true => ("RequestHeader", &self.front_proxy),
            false => ("Impersonate", &self.pki.gateway),
        };
        let mut addresses: Vec<SocketAddr> = self.stubs.iter().map(StubServer::address).collect();
        addresses.extend(edit.has_mute.then(|| self.mute.local_addr().unwrap()));
        self.manifest = self
            .manifest
            .clone()
            .upstream(identity, &self.pki.server_ca, "kubernetes")
            .set("/spec/servers", servers(&addresses, &[]))
            .set("/spec/portcullis", json!({"upstreamIdentity": mode}));
    }

    fn target(&self) -> TlsTarget {
        self.gateway.target(NAME).timeout(PATIENCE)
    }

    fn lanes(&self) -> Vec<Lane> {
        let alice = self.target().identity(&self.pki.alice);
        let of = |protocol| {
            [
                Lane::new(format!("certificate, {protocol:?}"), &alice, protocol),
                Lane::new(format!("token, {protocol:?}"), &self.target(), protocol).token(ROBOT),
            ]
        };
        [Protocol::Http2, Protocol::Http1].into_iter().flat_map(of).collect()
    }

    /// Requests that were handled as somebody who did not send them, and how many were handled.
    fn believed(&self) -> (Vec<String>, usize) {
        let records: Vec<_> = self.stubs.iter().flat_map(StubServer::records).collect();
        let of_clients = records.iter().filter(|record| record.path().contains("/namespaces/"));
        let handled: Vec<_> = of_clients.filter_map(|record| Some((record, record.effective.as_ref()?))).collect();
        let owner = |path: &str| if path.contains("/alice") { "alice" } else { "robot" };
        let of_others = handled.iter().filter(|(record, user)| user.username != owner(record.path()));
        let told = |(record, user): &(&_, &portcullis_stub_apiserver::User)| {
            let record: &portcullis_stub_apiserver::Record = record;
            let by = record.peer_common_name.as_deref().unwrap_or("-");
            format!("{} {} as {} {:?} by {by}", record.method, record.target, user.username, record.status)
        };
        (of_others.map(told).collect(), handled.len())
    }
}

/// What is edited.
#[derive(Clone, Copy, Debug)]
struct Edit {
    /// `RequestHeader`, or `Impersonate`.
    by_headers: bool,
    /// Whether the server that says nothing is among the servers.
    has_mute: bool,
}

fn stub(pki: &Pki, proxies: &Ca, store: &SharedStore, number: usize) -> StubServer {
    let mut options = pki.stub_options(&format!("stub-{number}"));
    options.store = store.clone();
    options.impersonators = vec![IMPERSONATOR.to_owned()];
    options.requestheader_ca = Some(proxies.pem());
    options.requestheader_names = vec![FRONT_PROXY.to_owned()];
    StubServer::start(options).unwrap()
}

/// Somebody whom the servers know, by certificate or token.
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

    /// Asks to read as somebody else, over and over. Nothing is said about the answers: the servers tell as whom it was.
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

/// Makes the edits while some ask to be somebody else, and others behave.
fn in_motion(test: &str, edits: usize, step: impl Fn(&mut Motion, usize)) {
    in_motion_by(test, &[], edits, step);
}

/// As [`in_motion`], with flags for `portcullis bootstrap`.
fn in_motion_by(test: &str, bootstrap_flags: &[&str], edits: usize, step: impl Fn(&mut Motion, usize)) {
    let mut motion = Motion::start(test, bootstrap_flags);
    let (by_certificate, by_token) = (motion.target().identity(&motion.pki.alice), motion.target());
    let alice = Who { name: "alice", target: &by_certificate, token: None };
    let robot = Who { name: "robot", target: &by_token, token: Some(ROBOT) };
    let crowd = Crowd::new(2).unwrap();
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
        motion.edit(Edit { by_headers: number % 2 == 1, has_mute: false });
        motion.gateway.apply(&motion.manifest).unwrap();
    });
}

#[test]
fn mode_edits_by_state_of_the_world_grant_no_other_identity() {
    in_motion_by("generations-sotw", &["--xds-protocol", "sotw"], 4, |motion, number| {
        motion.edit(Edit { by_headers: number % 2 == 1, has_mute: false });
        motion.gateway.apply(&motion.manifest).unwrap();
    });
}

#[test]
fn mode_edits_beside_a_mute_server_grant_no_other_identity() {
    in_motion("generations-mute", 2, |motion, number| {
        motion.edit(Edit { by_headers: number % 2 == 1, has_mute: true });
        motion.gateway.apply(&motion.manifest).unwrap();
        motion.edit(Edit { by_headers: number % 2 == 1, has_mute: false });
        motion.gateway.apply(&motion.manifest).unwrap();
    });
}

#[test]
fn mode_edits_amid_a_killed_control_plane_grant_no_identity() {
    in_motion("generations-killed", 2, |motion, number| {
        motion.edit(Edit { by_headers: number % 2 == 1, has_mute: true });
        motion.gateway.write(&motion.manifest).unwrap();
        let warming =
            || (motion.gateway.envoy().admin().stat("cluster_manager.warming_clusters").ok()? > 0).then_some(());
        wait::until("Envoy warms clusters", SOON, warming).unwrap();
        motion.gateway.plane().process().kill();
        motion.gateway.restart_control_plane().unwrap();
        motion.edit(Edit { by_headers: number % 2 == 1, has_mute: false });
        motion.gateway.apply(&motion.manifest).unwrap();
    });
}

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// How long a review may take.
const REVIEWED: Duration = Duration::from_secs(5);

/// Asks with a token while reviews are held, and changes the mode meanwhile; nothing if that took longer than reviews may.
fn ask_over_the_change(by_headers: bool) -> Option<()> {
    let mut motion = Motion::start("generations-waiting", &[]);
    if !by_headers {
        motion.edit(Edit { by_headers, has_mute: false });
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
        motion.edit(Edit { by_headers: !by_headers, has_mute: false });
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
        wait::undisturbed("the change came before the review's end", || ask_over_the_change(by_headers)).unwrap();
    }
}

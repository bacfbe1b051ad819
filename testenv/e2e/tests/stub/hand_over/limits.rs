//! A limit of all gateways while its cluster passes over: requests in flight of both owners' Envoys together are never more than it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{ClientPool, H2Client, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::{Value, json};

use super::owners::{HAND_OVER, LabelledCluster, SOON, TEAMS, Team, TwoOwners};
use crate::fixture::{PODS, Pki, StopOnDrop};

/// Requests in flight of all gateways.
const MAX: usize = 6;
/// Clients of each Envoy and cluster: more than the limit.
const CLIENTS: usize = MAX + 1;
/// The pause of a client after a refusal.
const PAUSE: Duration = Duration::from_millis(50);
/// Most requests of one client.
const REQUESTS: usize = 20_000;
/// Refusals after which an Envoy has asked for a part of the limit several times: two seconds of its clients.
const REFUSALS: u64 = 280;
/// Answers after which an Envoy has a part.
const ANSWERS: u64 = 20;

/// The outcome of the requests at one Envoy.
#[derive(Debug, Default)]
struct Outcomes {
    answered: AtomicU64,
    /// Refused by the limit.
    limited: AtomicU64,
    /// Not served: without a connection, or with any other answer.
    unserved: AtomicU64,
}

/// A cluster with a limit, and its clients at both Envoys.
struct Shared {
    cluster: LabelledCluster,
    outcomes: [Outcomes; 2],
}

/// Ends what the server holds, so that no client waits for it at the end of a test.
struct ReleaseOnDrop<'a>(&'a StubServer);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.clear_faults();
    }
}

/// A gateway without a part admits nothing, so that the limit holds to the unit while one joins.
fn schema(strategy: &str) -> Value {
    let (local, global) = (json!({"max": 0}), json!({"max": MAX}));
    json!({"name": "shared", "strategy": strategy, "maxRequestsInflight": local, "globalMaxRequestsInflight": global})
}

fn user(team: Team) -> String {
    format!("client-of-{}", team.name())
}

/// Asks again and again until it is stopped.
fn ask(target: &TlsTarget, pool: &ClientPool, outcomes: &Outcomes, stop: &AtomicBool) {
    let mut kept: Option<H2Client> = None;
    for _ in (0..REQUESTS).take_while(|_| !stop.load(Ordering::Acquire)) {
        let client = kept.take().map_or_else(|| pool.connect(target), Ok);
        let answer = client.and_then(|client| client.get(PODS, &[]).map(|answer| (answer.status, client)));
        let status = answer.ok().map(|(status, client)| {
            kept = matches!(status, 200 | 429).then_some(client);
            status
        });
        let counter = match status {
            Some(200) => &outcomes.answered,
            Some(429) => &outcomes.limited,
            _ => &outcomes.unserved,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if status != Some(200) {
            std::thread::park_timeout(PAUSE);
        }
    }
}

impl Shared {
    fn new(pki: &Pki, name: &str, strategy: &str) -> Self {
        let cluster = LabelledCluster::new(pki, name).limited(schema(strategy));
        let shared = Shared { cluster, outcomes: TEAMS.map(|_| Outcomes::default()) };
        shared.hold();
        shared
    }

    fn stub(&self) -> &StubServer {
        &self.cluster.stub
    }

    fn of(&self, team: Team) -> &Outcomes {
        &self.outcomes[team as usize]
    }

    /// The server holds requests from now on.
    fn hold(&self) {
        self.stub().clear();
        self.stub().fault(Fault::new(PODS, Action::Hold));
    }

    /// The server answers, each request after a moment.
    fn release(&self) {
        self.stub().clear_faults();
        self.stub().fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    }

    /// How many requests of each Envoy's clients the server holds.
    fn held(&self) -> [usize; 2] {
        let records = self.stub().records_for(PODS);
        let of = |team| {
            let user = Some(user(team));
            records.iter().filter(|one| one.status.is_none() && one.header("impersonate-user") == user).count()
        };
        TEAMS.map(of)
    }

    /// Waits until as many requests are held as the limit admits, some of each of these Envoys.
    fn wait_held(&self, teams: &[Team]) {
        let what = format!("{}: all of the limit is held", self.cluster.name);
        let are_held = || {
            let (running, held) = (self.stub().running(), self.held());
            let is_full = running >= MAX && teams.iter().all(|team| held[*team as usize] > 0);
            if is_full { Ok(()) } else { Err(format!("{running} run, {held:?} held, {:?}", self.outcomes)) }
        };
        wait::until_ok(&what, SOON, are_held).unwrap();
    }

    fn wait_more(&self, what: &str, within: Duration, counter: &AtomicU64, more: u64) {
        let before = counter.load(Ordering::Relaxed);
        let has_more = || {
            let count = counter.load(Ordering::Relaxed);
            if count >= before + more { Ok(()) } else { Err(format!("{count}, {before} before: {:?}", self.outcomes)) }
        };
        wait::until_ok(&format!("{}: {what}", self.cluster.name), within, has_more).unwrap();
    }

    /// Asserts that the limit was in use, and never more. Nothing if the machine is so slow that the hand-over may have ended: what the
    /// former owner's Envoy holds then does not count.
    fn keeps_to_the_limit(&self, edit: Instant) -> Option<()> {
        let peak = self.stub().peak();
        (edit.elapsed() < HAND_OVER).then(|| assert_eq!(peak, MAX, "{}: {:?}", self.cluster.name, self.held()))
    }
}

/// All requests of the former owner's are held while the next one comes; then some of both; and then the hand-over ends. Nothing if that
/// took longer than the hand-over.
fn pass_over(owners: &TwoOwners, all: &[Shared]) -> Option<()> {
    all.iter().for_each(|one| one.wait_held(&[Team::A]));
    let edit = Instant::now();
    all.iter().for_each(|one| owners.give(&one.cluster, Team::B));
    for one in all {
        one.wait_more("b asks for a part, and has none", SOON, &one.of(Team::B).limited, REFUSALS);
        one.keeps_to_the_limit(edit)?;
        assert_eq!(one.held(), [MAX, 0], "{}", one.cluster.name);
    }
    all.iter().for_each(Shared::release);
    for team in TEAMS {
        all.iter().for_each(|one| one.wait_more("both have parts", SOON, &one.of(team).answered, ANSWERS));
    }
    all.iter().for_each(Shared::hold);
    all.iter().for_each(|one| one.wait_held(&TEAMS));
    for team in TEAMS {
        all.iter().for_each(|one| one.wait_more("both ask for more", SOON, &one.of(team).limited, REFUSALS));
    }
    for one in all {
        eprintln!("{}: {:?} of {MAX} are held at once", one.cluster.name, one.held());
        one.keeps_to_the_limit(edit)?;
    }
    all.iter().for_each(Shared::release);
    for one in all {
        one.wait_more("a has ceased", SOON + HAND_OVER, &one.of(Team::A).unserved, REFUSALS);
        assert_eq!(one.stub().take_peak(), MAX, "{}: at the end of the hand-over", one.cluster.name);
        let is_whole = || (one.stub().peak() >= MAX).then_some(());
        wait::until("b has all of the limit", SOON, is_whole).unwrap();
    }
    Some(())
}

fn held_requests_keep_to_the_limit() -> Option<()> {
    let pki = Pki::new();
    let all = [("allocated", "globalAllocate"), ("counted", "globalCount")];
    let all = all.map(|(name, strategy)| Shared::new(&pki, name, strategy));
    let clients: [Identity; 2] = TEAMS.map(|team| pki.client_ca.issue(&CertSpec::client(user(team), ["dev"])).unwrap());
    let owners = TwoOwners::start("hand-over-limits", &all.each_ref().map(|one| (&one.cluster, Team::A)));
    let (pool, stop) = (ClientPool::new(2).unwrap(), AtomicBool::new(false));
    let passed = std::thread::scope(|scope| {
        let _released = all.each_ref().map(|one| ReleaseOnDrop(one.stub()));
        let _stop = StopOnDrop(&stop);
        for one in &all {
            for (team, client) in TEAMS.into_iter().zip(&clients) {
                let target = owners.target(team, &one.cluster, client).timeout(HAND_OVER * 2);
                for _ in 0..CLIENTS {
                    let (target, pool, stop) = (target.clone(), &pool, &stop);
                    scope.spawn(move || ask(&target, pool, one.of(team), stop));
                }
            }
        }
        pass_over(&owners, &all)
    });
    passed?;
    for one in &all {
        assert!(one.stub().peak() <= MAX, "{}: {} in flight", one.cluster.name, one.stub().peak());
        one.cluster.assert_users(&TEAMS.map(user).each_ref().map(String::as_str));
    }
    Some(())
}

#[test]
fn held_requests_of_both_owners_are_never_more_than_a_limit() {
    wait::retry_if_slow("requests are held within a hand-over", held_requests_keep_to_the_limit).unwrap();
}

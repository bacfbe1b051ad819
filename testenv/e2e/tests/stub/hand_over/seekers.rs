//! Clients that ask at one Envoy, and at the other one if that does not answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portcullis_harness::client::{ClientPool, H2Client, Response, TlsTarget};
use portcullis_harness::{Error, wait};

use super::owners::{LabelledCluster, TEAMS, Team};
use crate::fixture::PODS;

/// The pause after a request on a new connection and one on a connection that is kept.
const PAUSE: Duration = Duration::from_millis(50);
/// Most such rounds of one client.
const ROUNDS: usize = 10_000;
/// Requests after which none is left that began before.
const SEVERAL: u64 = 8;

/// The outcome of requests at one Envoy.
#[derive(Debug, Default)]
pub(super) struct SeenAt {
    /// Answers by the cluster's server on new connections.
    pub(super) answered: AtomicU64,
    /// The same on connections that were kept.
    pub(super) answered_on_kept: AtomicU64,
    /// Requests on new connections with another outcome, or without a connection.
    pub(super) refused: AtomicU64,
    /// The same on connections that were kept.
    pub(super) ended: AtomicU64,
}

/// The outcome of all requests for a cluster.
#[derive(Debug, Default)]
pub(super) struct Seen {
    at: [SeenAt; 2],
    /// Requests that no Envoy answered, and answers of another cluster's server: there are to be none.
    faults: Mutex<Vec<String>>,
}

pub(super) fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Seen {
    pub(super) fn at(&self, team: Team) -> &SeenAt {
        &self.at[team as usize]
    }

    /// Waits until several requests more had that outcome.
    pub(super) fn wait_more(&self, what: &str, within: Duration, counter: &AtomicU64) {
        let before = count(counter);
        let has_more = || if count(counter) >= before + SEVERAL { Ok(()) } else { Err(format!("{self:?}")) };
        wait::until_ok(what, within, has_more).unwrap();
    }

    fn note(&self, fault: String) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A client with connections to some Envoys.
pub(super) struct Seeker<'a> {
    cluster: &'a LabelledCluster,
    seen: &'a Seen,
    pool: ClientPool,
    /// The Envoys in the order in which they are asked.
    targets: Vec<(Team, TlsTarget)>,
    kept: [Option<H2Client>; 2],
}

impl<'a> Seeker<'a> {
    pub(super) fn new(cluster: &'a LabelledCluster, seen: &'a Seen, targets: Vec<(Team, TlsTarget)>) -> Self {
        Seeker { cluster, seen, pool: ClientPool::new(1).unwrap(), targets, kept: TEAMS.map(|_| None) }
    }

    /// Asks again and again until it is stopped.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        for _ in (0..ROUNDS).take_while(|_| !stop.load(Ordering::Acquire)) {
            for is_kept in [false, true] {
                let refusals = self.seek(is_kept);
                if refusals.len() == self.targets.len() {
                    self.seen.note(format!("{}: no answer: {refusals:?}", self.cluster.name));
                }
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Asks one after the other until one answers, and returns the reasons of those before it.
    fn seek(&mut self, is_kept: bool) -> Vec<String> {
        let mut refusals = Vec::new();
        for (team, target) in self.targets.clone() {
            let outcome =
                if is_kept { self.ask_on_kept(team, &target) } else { self.ask_anew(team, &target).map(drop) };
            match outcome {
                Ok(()) => break,
                Err(reason) => refusals.push(format!("{team:?}: {reason}")),
            }
        }
        refusals
    }

    /// Asks on a new connection.
    fn ask_anew(&self, team: Team, target: &TlsTarget) -> Result<H2Client, String> {
        let seen = self.seen.at(team);
        let connected = self.pool.connect(target).map_err(|error| error.to_string());
        let asked = connected.and_then(|client| self.judge(client.get(PODS, &[])).map(|()| client));
        let counter = if asked.is_ok() { &seen.answered } else { &seen.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        asked
    }

    /// Asks on the connection that is kept; on a new one if there is none, or it has ended.
    fn ask_on_kept(&mut self, team: Team, target: &TlsTarget) -> Result<(), String> {
        let seen = self.seen.at(team);
        if let Some(client) = self.kept[team as usize].take() {
            if self.judge(client.get(PODS, &[])).is_ok() {
                seen.answered_on_kept.fetch_add(1, Ordering::Relaxed);
                self.kept[team as usize] = Some(client);
                return Ok(());
            }
            seen.ended.fetch_add(1, Ordering::Relaxed);
        }
        self.kept[team as usize] = Some(self.ask_anew(team, target)?);
        Ok(())
    }

    /// Whether the cluster's own server has answered with 200. An answer of another server is a fault, whatever it says.
    fn judge(&self, answer: Result<Response, Error>) -> Result<(), String> {
        let answer = answer.map_err(|error| error.to_string())?;
        let own = self.cluster.name.strip_suffix(".test");
        match answer.header("x-stub-name").as_deref() {
            None => Err(format!("{} {}", answer.status, answer.text())),
            server if server != own => {
                let fault = format!("{}: answered by {server:?}", self.cluster.name);
                self.seen.note(fault.clone());
                Err(fault)
            }
            _ if answer.status == 200 => Ok(()),
            _ => Err(format!("{} by the server", answer.status)),
        }
    }
}

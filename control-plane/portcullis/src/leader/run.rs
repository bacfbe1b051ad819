use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use portcullis_api::status::sanitize;
use portcullis_sources::KubernetesAccess;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::election::{Election, Moment, Tenure, Timing};
use super::lease::{claimed, record, released};
use super::pace::{Failure, Pace};
use crate::boot_time::boot_time;

/// Timeout for releasing the Lease at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which the clock is read while this replica leads: timers stand still while the machine is suspended.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Warnings about an election come no more often than this.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// A candidacy that runs. Dropped without [`Leadership::release`], its Lease runs out.
pub(crate) struct Leadership {
    /// Whether this replica leads.
    pub(crate) leads: watch::Receiver<bool>,
    /// The time for which it leads; it may be over. For what has to be right also in the moment in which a process goes on that was
    /// stopped: no task has changed `leads` by then.
    pub(crate) tenure: watch::Receiver<Option<Tenure>>,
    /// Why it cannot take part in the election; none if it can.
    pub(crate) failure: watch::Receiver<Option<String>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Runs for the Lease `name` in the control plane's own namespace, while that is wanted. Needs a tokio runtime.
pub(crate) fn campaign(
    access: &KubernetesAccess,
    name: &str,
    timing: Timing,
    wanted: watch::Receiver<bool>,
) -> Leadership {
    let (tenure_sender, tenure) = watch::channel(None);
    let (leads_sender, leads) = watch::channel(false);
    let (failure_sender, failure) = watch::channel(None);
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(publish(name.to_owned(), tenure.clone(), leads_sender));
    let identity = identity();
    let election = Election::new(identity.clone(), timing);
    let leases = Api::namespaced(access.client.clone(), &access.namespace);
    let name = name.to_owned();
    let candidate = Candidate { leases, name, identity, election, timing, held: None, tenure: tenure_sender };
    let task = tokio::spawn(candidate.run(failure_sender, wanted, stopped));
    Leadership { leads, tenure, failure, stop, task }
}

impl Leadership {
    /// Ends the candidacy, and lets another replica lead at once.
    pub(crate) async fn release(self) {
        drop(self.stop);
        // An API that does not answer must not hold up an end; the Lease runs out by itself.
        let _ = tokio::time::timeout(RELEASE_TIMEOUT, self.task).await;
    }
}

/// Publishes whether this replica leads, also while a call hangs.
async fn publish(lease: String, mut tenure: watch::Receiver<Option<Tenure>>, leads: watch::Sender<bool>) {
    let mut said = None;
    loop {
        let current = *tenure.borrow_and_update();
        let left = current.map(|one| one.until.saturating_sub(boot_time())).filter(|left| !left.is_zero());
        let is_leader = left.is_some();
        let has_changed = leads.send_if_modified(|before| std::mem::replace(before, is_leader) != is_leader);
        if let Some(leads) = news(&mut said, current, is_leader) {
            tracing::info!(lease, leads, "leadership changed");
        } else if has_changed {
            tracing::debug!(lease, leads = is_leader, "renewed late");
        }
        let changed = match left {
            None => tenure.changed().await,
            Some(left) => tokio::select! {
                changed = tenure.changed() => changed,
                () = tokio::time::sleep(left.min(LOOK_INTERVAL)) => Ok(()),
            },
        };
        if changed.is_err() {
            leads.send_replace(false);
            return;
        }
    }
}

/// Whether this replica leads, if that is worth a line of the log. A gap between late renewals is not: `said` is the term of the last line.
fn news(said: &mut Option<u64>, tenure: Option<Tenure>, is_leader: bool) -> Option<bool> {
    let term = tenure.filter(|tenure| is_leader || *said == Some(tenure.term)).map(|tenure| tenure.term);
    let is_news = *said != term;
    *said = term;
    is_news.then_some(is_leader)
}

struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    election: Election,
    timing: Timing,
    /// The Lease as this candidate wrote it last, if no other has written it since as far as it knows.
    held: Option<Lease>,
    tenure: watch::Sender<Option<Tenure>>,
}

impl Candidate {
    async fn run(
        mut self,
        failure: watch::Sender<Option<String>>,
        mut wanted: watch::Receiver<bool>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        loop {
            let is_over = tokio::select! {
                is_wanted = wanted.wait_for(|wanted| *wanted) => is_wanted.is_err(),
                _ = &mut stopped => true,
            };
            if is_over {
                return;
            }
            let is_over = tokio::select! {
                () = self.stand(&failure) => false,
                () = unwanted(&mut wanted) => false,
                _ = &mut stopped => true,
            };
            // This replica stops acting as the leader before another may.
            self.tenure.send_replace(None);
            failure.send_replace(None);
            if self.election.tenure().is_some() {
                self.give_up().await;
            }
            self.election.resign();
            if is_over {
                return;
            }
        }
    }

    /// Reads and writes the Lease for as long as it is polled.
    async fn stand(&mut self, failure: &watch::Sender<Option<String>>) {
        let mut pace = Pace::new(self.timing.retry);
        let mut warned: Option<Moment> = None;
        loop {
            let began = boot_time();
            let outcome = self.round().await;
            self.publish();
            // The API wrote it, as long as it likes.
            let reason = outcome.as_ref().err().map(|failure| sanitize(&failure.to_string()));
            if let Some(reason) = &reason
                && warned.is_none_or(|warned| began >= warned.saturating_add(WARN_INTERVAL))
            {
                warned = Some(began);
                tracing::warn!(lease = self.name, reason, "cannot take part in the election of a leader");
            }
            failure.send_if_modified(|before| std::mem::replace(before, reason.clone()) != reason);
            let now = boot_time();
            let leads = self.election.tenure().is_some_and(|tenure| now < tenure.until);
            let pause = spread(pace.after(&outcome, leads));
            let free_in = self.election.free_in(now).filter(|_| outcome.is_ok());
            tokio::time::sleep(rest(pause, now.saturating_sub(began), free_in)).await;
        }
    }

    fn publish(&self) {
        self.tenure.send_replace(self.election.tenure());
    }

    /// Writes what this candidate holds; reads, and writes if that is due, where it holds nothing.
    async fn round(&mut self) -> Result<(), Failure> {
        let held = self.held.take();
        if held.is_some() && self.write(held).await? {
            return Ok(());
        }
        // If another one wrote it, this one leads no more, also if it cannot read who did.
        self.publish();
        let read = self.call(self.leases.get_opt(&self.name)).await?;
        self.write(read).await.map(drop)
    }

    /// Writes the Lease if that is due after what was there before. Returns whether this candidate has it.
    async fn write(&mut self, before: Option<Lease>) -> Result<bool, Failure> {
        let seen = before.as_ref().map(record);
        let claim = self.election.observe(seen.as_ref(), boot_time());
        // An earlier write may have counted by that.
        self.publish();
        let Some(claim) = claim else { return Ok(false) };
        let is_there = before.is_some();
        let lease = claimed(before, &self.name, &self.identity, &claim, self.timing.lease, Timestamp::now());
        let sent = boot_time();
        self.election.sends(record(&lease).renewal, sent);
        let parameters = PostParams::default();
        self.held = if is_there {
            self.call(unless_late(self.leases.replace(&self.name, &parameters, &lease), &[404, 409])).await?
        } else {
            self.call(unless_late(self.leases.create(&parameters, &lease), &[409])).await?
        };
        if self.held.is_some() {
            self.election.written(sent);
        } else {
            self.election.refused(sent);
        }
        Ok(self.held.is_some())
    }

    async fn give_up(&mut self) {
        self.held = None;
        let Ok(Some(lease)) = self.call(self.leases.get_opt(&self.name)).await else { return };
        if let Some(lease) = released(lease, &self.identity) {
            // If this fails, the next leader waits until the Lease runs out.
            let _ = self.call(self.leases.replace(&self.name, &PostParams::default(), &lease)).await;
        }
    }

    /// Makes the call within its time.
    async fn call<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
        match tokio::time::timeout(self.timing.request, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(Failure::Refused(status.code, status.message)),
            Ok(Err(_)) => Err(Failure::NoConnection),
            Err(_) => Err(Failure::NoAnswer),
        }
    }
}

/// The rest of a pause after a round that took so long, or less if the Lease is free before. The pause counts from the beginning of
/// the round: a call that took long leaves a leader less time for the next one.
fn rest(pause: Duration, took: Duration, free_in: Option<Duration>) -> Duration {
    let rest = pause.saturating_sub(took);
    // A Lease that is free already was tried for.
    free_in.filter(|left| !left.is_zero()).map_or(rest, |left| left.min(rest))
}

/// Ends when the candidacy is wanted no more.
async fn unwanted(wanted: &mut watch::Receiver<bool>) {
    if wanted.wait_for(|wanted| !*wanted).await.is_err() {
        // Nothing will change that.
        std::future::pending::<()>().await;
    }
}

/// The Lease if a write succeeded; that another replica was faster, or that the Lease is gone, is no error.
async fn unless_late(write: impl Future<Output = kube::Result<Lease>>, late: &[u16]) -> kube::Result<Option<Lease>> {
    match write.await {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if late.contains(&status.code) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Up to a fifth more, so that replicas do not stay in step.
fn spread(wait: Duration) -> Duration {
    let mut bytes = [0; 1];
    // Without randomness they stay in step, which costs a refused write now and then.
    let _ = SystemRandom::new().fill(&mut bytes);
    wait + (wait / 5).mul_f64(f64::from(u8::from_le_bytes(bytes)) / 256.0)
}

/// The host's name, which is a pod's, and something that no other process has.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut bytes = [0; 8];
    // Without randomness the time of the start distinguishes the process.
    if SystemRandom::new().fill(&mut bytes).is_err() {
        bytes = Timestamp::now().as_microsecond().to_le_bytes();
    }
    format!("{}_{:016x}", host.trim(), u64::from_le_bytes(bytes))
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

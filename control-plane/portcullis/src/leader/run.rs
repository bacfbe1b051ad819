use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use portcullis_sources::KubernetesAccess;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::election::{Claim, Election, Moment, Record, Timing};
use crate::boot_time::boot_time;

/// Timeout of one request to the API.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout for releasing the Lease at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which the clock is read while this replica leads: timers stand still while the machine is suspended.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A candidacy that runs. Dropped without [`Leadership::release`], its Lease runs out.
pub(crate) struct Leadership {
    /// Whether this replica leads.
    pub(crate) leads: watch::Receiver<bool>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Runs for the Lease `name` in the control plane's own namespace. Needs a tokio runtime.
pub(crate) fn campaign(access: &KubernetesAccess, name: &str) -> Leadership {
    let (until_sender, until) = watch::channel(None);
    let (leads_sender, leads) = watch::channel(false);
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(publish(until, leads_sender));
    let candidate = Candidate::new(access.client.clone(), &access.namespace, name);
    let task = tokio::spawn(candidate.run(until_sender, stopped));
    Leadership { leads, stop, task }
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
async fn publish(mut until: watch::Receiver<Option<Moment>>, leads: watch::Sender<bool>) {
    loop {
        let end = *until.borrow_and_update();
        let left = end.map(|end| end.saturating_sub(boot_time())).filter(|left| !left.is_zero());
        let is_leader = left.is_some();
        let has_changed = leads.send_if_modified(|before| std::mem::replace(before, is_leader) != is_leader);
        if has_changed {
            tracing::info!(leads = is_leader, "leadership changed");
        }
        let changed = match left {
            None => until.changed().await,
            Some(left) => tokio::select! {
                changed = until.changed() => changed,
                () = tokio::time::sleep(left.min(LOOK_INTERVAL)) => Ok(()),
            },
        };
        if changed.is_err() {
            leads.send_replace(false);
            return;
        }
    }
}

struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    election: Election,
    timing: Timing,
}

impl Candidate {
    fn new(client: Client, namespace: &str, name: &str) -> Self {
        let (identity, timing) = (identity(), Timing::DEFAULT);
        let election = Election::new(identity.clone(), timing);
        let leases = Api::namespaced(client, namespace);
        Self { leases, name: name.to_owned(), identity, election, timing }
    }

    async fn run(mut self, until: watch::Sender<Option<Moment>>, mut stopped: oneshot::Receiver<()>) {
        let mut failed = false;
        loop {
            let outcome = tokio::select! {
                outcome = self.round() => outcome,
                _ = &mut stopped => break,
            };
            until.send_replace(self.election.leads_until());
            if let (Err(reason), false) = (&outcome, failed) {
                tracing::warn!(reason, "cannot take part in the election of a leader");
            }
            failed = outcome.is_err();
            tokio::select! {
                () = tokio::time::sleep(spread(self.timing.retry)) => {}
                _ = &mut stopped => break,
            }
        }
        // This replica stops acting as the leader before another may.
        until.send_replace(None);
        if self.election.leads_until().is_some() {
            self.give_up().await;
        }
    }

    /// Reads, and writes if that is due.
    async fn round(&mut self) -> Result<(), String> {
        let before = call(self.leases.get_opt(&self.name)).await?;
        let seen = before.as_ref().map(record);
        let Some(claim) = self.election.observe(seen.as_ref(), boot_time()) else { return Ok(()) };
        let is_there = before.is_some();
        let lease = claimed(before, &self.name, &self.identity, &claim, self.timing.lease, Timestamp::now());
        let sent = boot_time();
        let parameters = PostParams::default();
        let written = if is_there {
            call(unless_late(self.leases.replace(&self.name, &parameters, &lease))).await?
        } else {
            call(unless_late(self.leases.create(&parameters, &lease))).await?
        };
        if written {
            self.election.written(sent);
        }
        Ok(())
    }

    async fn give_up(&self) {
        let Ok(Some(lease)) = call(self.leases.get_opt(&self.name)).await else { return };
        if let Some(lease) = released(lease, &self.identity) {
            // If this fails, the next leader waits until the Lease runs out.
            let _ = call(self.leases.replace(&self.name, &PostParams::default(), &lease)).await;
        }
    }
}

/// Whether a write succeeded; that another replica was faster is no error.
async fn unless_late(write: impl Future<Output = kube::Result<Lease>>) -> kube::Result<bool> {
    match write.await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the call within its time.
async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(format!("{} {}", status.code, status.message)),
        Ok(Err(_)) => Err("no connection".to_owned()),
        Err(_) => Err("no answer".to_owned()),
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

/// The content of a Lease object.
pub(super) fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        lease: Duration::from_secs(seconds.unwrap_or_default()),
        renewal: spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

/// The Lease object to write: `before` is the object that was read, whose version goes along, so that the server refuses the
/// write if another replica was faster. `at` is for people to read.
fn claimed(before: Option<Lease>, name: &str, identity: &str, claim: &Claim, lease: Duration, at: Timestamp) -> Lease {
    let fresh =
        || Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..Lease::default() };
    let mut made = before.unwrap_or_else(fresh);
    let spec = made.spec.get_or_insert_with(LeaseSpec::default);
    if claim.is_new {
        spec.acquire_time = Some(MicroTime(at));
    }
    spec.renew_time = Some(MicroTime(at));
    spec.holder_identity = Some(identity.to_owned());
    spec.lease_duration_seconds = Some(i32::try_from(lease.as_secs()).unwrap_or(i32::MAX));
    spec.lease_transitions = Some(claim.transitions);
    made
}

/// The Lease without a holder, if `identity` has it.
fn released(mut lease: Lease, identity: &str) -> Option<Lease> {
    let spec = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_deref() == Some(identity))?;
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    Some(lease)
}

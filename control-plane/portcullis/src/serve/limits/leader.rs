//! One replica divides limits that gateways share: the one that has the Lease for that.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use bytes::Bytes;
use portcullis_filter_config::GlobalLimit;
use portcullis_limits::{HolderRefusal, Limiter, NodeOwners};
use portcullis_sources::KubernetesAccess;
use portcullis_xds::{GatewayReport, UnreadableReport};
use tokio::sync::watch;

use super::super::fleet::{ServedObjects, SharedLimits};
use super::reporters::LimitReporters;
use super::{answer, counted_names, read, refusal};
use crate::leader::{Leadership, Tenure, Timing, campaign, limits_lease_name};

/// Runs for the Lease of the replica that divides limits, beside the one of that name, while an object has any.
pub(super) fn campaign_for_limits(
    access: &KubernetesAccess,
    lease_name: &str,
    mut served: watch::Receiver<Arc<ServedObjects>>,
) -> Leadership {
    let (sender, wanted) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            sender.send_replace(served.borrow_and_update().have_global_limits());
            if served.changed().await.is_err() {
                return;
            }
        }
    });
    campaign(access, &limits_lease_name(lease_name), Timing::LIMITS, wanted)
}

/// Divides the limits while this replica leads. Each object's have a lock of their own: a flood of reports about one delays no report
/// about others.
pub(crate) struct LimitDivision {
    state: RwLock<Division>,
    /// The time of the last answer, in nanoseconds.
    answered: AtomicU64,
    reporters: LimitReporters,
}

struct Division {
    served: watch::Receiver<Arc<ServedObjects>>,
    /// The time for which this replica divides. `None` where there are no replicas.
    tenure: Option<watch::Receiver<Option<Tenure>>>,
    /// The term in which the limiters were made.
    term: u64,
    /// The objects that they are of.
    objects: Arc<ServedObjects>,
    /// By the name under which a cluster counts; `None` while another replica divides.
    limiters: Option<HashMap<String, ObjectLimiter>>,
    owners: NodeOwners,
}

/// The limits of one object.
struct ObjectLimiter {
    limits: SharedLimits,
    limiter: Mutex<Limiter>,
}

/// Whether a [`Division`] can answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has the limits of now.
    Current,
    /// It has those of before.
    Outdated,
    /// Another replica divides, or no objects were read yet.
    Away,
}

impl LimitDivision {
    pub(crate) fn new(
        served: watch::Receiver<Arc<ServedObjects>>,
        tenure: Option<watch::Receiver<Option<Tenure>>>,
        owners: NodeOwners,
    ) -> Self {
        let reporters = LimitReporters::new(owners.clone());
        let division = Division { served, tenure, term: 0, objects: Arc::default(), limiters: None, owners };
        let state = RwLock::new(division);
        Self { state, answered: AtomicU64::new(0), reporters }
    }

    /// Answers a report with the gateway's parts; with nothing while another replica divides, and before objects were read. `now` is the
    /// time of a clock that goes on while the machine is suspended. Limits of objects about which it may not report are unknown to it.
    pub(super) fn divide(&self, report: &GatewayReport, now: Duration) -> Result<Bytes, UnreadableReport> {
        if self.current(now).is_none() {
            return Ok(Bytes::new());
        }
        let (message, clusters) = read(&report.content)?;
        let Some((names, is_own)) = self.current(now).map(|division| {
            let names = counted_names(&clusters, &division.objects);
            let is_own = names.iter().flatten().any(|name| division.limiter_of(report, name).is_some());
            (names, is_own)
        }) else {
            return Ok(Bytes::new());
        };
        if !is_own || !self.reporters.admit(&report.node, message.process, now) {
            return Ok(refusal(message.number, &clusters, report.content.len()));
        }
        let mut answers = Vec::new();
        for (cluster, name) in clusters.iter().zip(names) {
            // For each of them anew: an edit does not wait for a long report.
            let Some(division) = self.current(now) else { return Ok(Bytes::new()) };
            let uses = cluster.uses();
            let own = name.as_deref().and_then(|name| Some((name, division.limiter_of(report, name)?)));
            let Some((name, one)) = own else {
                answers.extend(uses.map(|_| None));
                continue;
            };
            let mut limiter = lock(&one.limiter);
            match limiter.holder(&report.node, message.process, message.number, now) {
                Ok(holder) => {
                    answers.extend(uses.map(|(schema, used)| limiter.exchange(holder, name, schema, used, now)));
                }
                Err(HolderRefusal::TooMany) => answers.extend(uses.map(|_| None)),
                Err(HolderRefusal::Old) => return Ok(Bytes::new()),
            }
        }
        Ok(answer(message.number, answers, report.content.len()))
    }

    /// The division with the limits of now, in which an answer may be given; `None` while this replica does not divide.
    fn current(&self, now: Duration) -> Option<RwLockReadGuard<'_, Division>> {
        // Others may bring newer limits in between, but not for ever.
        for _ in 0..4 {
            let division = self.state.read().unwrap_or_else(PoisonError::into_inner);
            match division.standing(now) {
                Standing::Current => {
                    // Within the lock, so that a later term knows of it.
                    self.answered.fetch_max(nanoseconds(now), Ordering::Relaxed);
                    return Some(division);
                }
                Standing::Away => return None,
                Standing::Outdated => {}
            }
            drop(division);
            let mut division = self.state.write().unwrap_or_else(PoisonError::into_inner);
            division.renew(now, Duration::from_nanos(self.answered.load(Ordering::Relaxed)));
        }
        None
    }
}

impl Division {
    /// The limits of the object that counts under this name, if the gateway may report about it.
    fn limiter_of(&self, report: &GatewayReport, name: &str) -> Option<&ObjectLimiter> {
        let known = self.limiters.as_ref()?.get(name)?;
        self.objects.may_report(&report.membership, &known.limits.object).then_some(known)
    }

    fn standing(&self, now: Duration) -> Standing {
        if let Some(tenure) = &self.tenure {
            let Some(tenure) = *tenure.borrow() else {
                return if self.limiters.is_some() { Standing::Outdated } else { Standing::Away };
            };
            if now >= tenure.until {
                // The limiters are kept: if the Lease is renewed late, no other replica has had it.
                return Standing::Away;
            }
            if tenure.term != self.term {
                return Standing::Outdated;
            }
        }
        // A limit that is not known yet has its parts from another replica: nothing revokes them.
        if !self.served.borrow().are_read() {
            return Standing::Away;
        }
        let is_news = self.served.has_changed().unwrap_or(false) || self.limiters.is_none();
        if is_news { Standing::Outdated } else { Standing::Current }
    }

    /// Takes the limits of now. Limiters know nothing at first if another replica may have divided since they were made: they renew what
    /// gateways say that they have for as long as leases of that one may last.
    fn renew(&mut self, now: Duration, answered: Duration) {
        let mut begins = now;
        if let Some(tenure) = &self.tenure {
            let Some(tenure) = *tenure.borrow() else {
                self.limiters = None;
                return;
            };
            if now >= tenure.until {
                return;
            }
            if tenure.term != self.term {
                (self.limiters, self.term) = (None, tenure.term);
            }
            // Its own answers are those of earlier limiters, too.
            begins = tenure.alone_since.max(answered).min(now);
        }
        if !self.served.borrow().are_read() {
            return;
        }
        if self.limiters.is_some() {
            begins = now;
        }
        self.objects = self.served.borrow_and_update().clone();
        let mut known = self.limiters.take().unwrap_or_default();
        let of_objects = self.objects.shared_limits().into_iter().map(|(name, limits)| {
            let limiter = match known.remove(&name) {
                Some(before) => before.with_limits(&name, limits, begins),
                None => ObjectLimiter::new(&name, limits, &self.owners, begins),
            };
            (name, limiter)
        });
        self.limiters = Some(of_objects.collect());
    }
}

impl ObjectLimiter {
    fn new(name: &str, limits: SharedLimits, owners: &NodeOwners, begins: Duration) -> Self {
        let mut limiter = Limiter::of_owners(owners.clone());
        limiter.configure(&of_one(name, &limits), begins);
        Self { limits, limiter: Mutex::new(limiter) }
    }

    fn with_limits(self, name: &str, limits: SharedLimits, begins: Duration) -> Self {
        if self.limits.limits != limits.limits {
            lock(&self.limiter).configure(&of_one(name, &limits), begins);
        }
        Self { limits, ..self }
    }
}

fn of_one(name: &str, limits: &SharedLimits) -> BTreeMap<String, BTreeMap<String, GlobalLimit>> {
    BTreeMap::from([(name.to_owned(), limits.limits.as_ref().clone())])
}

/// A panic leaves at most one report half taken: parts may then be reserved that no process has.
fn lock(limiter: &Mutex<Limiter>) -> MutexGuard<'_, Limiter> {
    limiter.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

//! Reports that wait for the store, and rounds in which all of them are answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_filter_config::GlobalLimit;
use portcullis_filter_config::limits::PartUse;
use portcullis_limits::{HolderRefusal, LimitAnswer, Limiter, NodeOwners};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::address::StoreAddress;
use crate::client::StoreFiles;
use crate::clock::StoreClock;
use crate::connection::{Saved, StateWrite, StoreConnection, random};
use crate::error::StoreError;

/// Reports that wait at most, and KiB of them; others get no answer and come again.
const WAITING: usize = 4_096;
const WAITING_KIB: usize = 64 << 10;
/// Reports, and clusters, that are answered together at most.
const REPORTS_OF_ROUND: usize = 256;
const CLUSTERS_OF_ROUND: usize = 256;
/// The time for which a gateway waits for an answer, less the way: a round that takes longer is of no use.
const USEFUL: Duration = Duration::from_secs(1);
/// The pause while another control plane has its turn.
const OTHERS_TURN: Duration = Duration::from_millis(10);
/// The pause after a connection that failed, and the time for one, sentinels included. A store that is back is of use after a lease, so
/// that each moment of the pause is one without parts.
const PAUSE: Duration = Duration::from_millis(250);
const OPEN: Duration = Duration::from_secs(3);

/// The report of one process.
#[derive(Debug)]
pub struct ProcessReport {
    /// The node's id.
    pub node: String,
    /// The number of the process.
    pub process: u64,
    /// The number of the report, greater than those before it.
    pub number: u64,
    /// The use of limits.
    pub clusters: Vec<ClusterExchange>,
    /// Bytes of the report as it came.
    pub bytes: usize,
}

/// The use of the limits of one cluster, and these limits.
#[derive(Debug)]
pub struct ClusterExchange {
    /// The name that all control planes know the cluster by.
    pub name: String,
    /// All its limits, by schema.
    pub limits: Arc<BTreeMap<String, GlobalLimit>>,
    /// Use, by schema.
    pub uses: Vec<(String, PartUse)>,
}

/// A report that waits.
#[derive(Debug)]
struct Waiting {
    report: ProcessReport,
    since: Instant,
    answer: oneshot::Sender<ReportAnswers>,
    /// Its part of the room for reports, also when nothing waits for its answer any more.
    _room: OwnedSemaphorePermit,
}

/// Answers, in the order of a report's clusters and of their schemas; `None` for a report that was not the newest one.
type ReportAnswers = Option<Vec<Vec<Option<LimitAnswer>>>>;

/// Places of a cluster in the reports of a round: the report, and the cluster in it.
type Places = Vec<(usize, usize)>;

/// The store in use, for metrics.
#[derive(Debug, Default)]
pub struct StoreStatistics {
    /// Whether the last round was answered.
    pub is_up: AtomicBool,
    /// Rounds.
    pub rounds: AtomicU64,
    /// Rounds that failed.
    pub failures: AtomicU64,
    /// Changes that were made anew because another control plane was faster.
    pub conflicts: AtomicU64,
}

/// A store of limits, which one task speaks with. The task ends with its last sender of reports.
#[derive(Debug)]
pub struct LimitStore {
    reports: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    statistics: Arc<StoreStatistics>,
}

impl LimitStore {
    /// Starts the task. `prefix` begins each key; `owners` are the same in all control planes of the store.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn start(address: StoreAddress, files: StoreFiles, prefix: String, owners: NodeOwners) -> Self {
        let (reports, waiting) = mpsc::channel(WAITING);
        let statistics = Arc::new(StoreStatistics::default());
        let rounds = Rounds {
            address,
            files,
            prefix,
            owners,
            connection: None,
            clock: StoreClock::default(),
            tried: None,
            failure: None,
            writer: random(),
            writes: 0,
            statistics: Arc::clone(&statistics),
        };
        tokio::spawn(rounds.run(waiting));
        Self { reports, room: Arc::new(Semaphore::new(WAITING_KIB)), statistics }
    }

    /// Numbers about it.
    pub fn statistics(&self) -> Arc<StoreStatistics> {
        Arc::clone(&self.statistics)
    }

    /// The answers to a report, `None` if it gets none: the store is away, or the report is not the newest one of its process.
    pub async fn exchange(&self, report: ProcessReport) -> ReportAnswers {
        let room = u32::try_from(report.bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(room).ok()?;
        let (sender, answer) = oneshot::channel();
        let waiting = Waiting { report, since: Instant::now(), answer: sender, _room: room };
        if let Err(TrySendError::Closed(_)) = self.reports.try_send(waiting) {
            // The task has panicked. Without it nothing says so but this.
            self.statistics.is_up.store(false, Ordering::Relaxed);
            return None;
        }
        answer.await.ok().flatten()
    }
}

/// The task.
struct Rounds {
    address: StoreAddress,
    files: StoreFiles,
    prefix: String,
    owners: NodeOwners,
    connection: Option<StoreConnection>,
    clock: StoreClock,
    /// The last attempt to connect.
    tried: Option<Instant>,
    /// The failure that was logged last; empty after an answer, and `None` before the first of both.
    failure: Option<String>,
    /// The word of this control plane, and a number of its writes: together the token of a write.
    writer: String,
    writes: u64,
    statistics: Arc<StoreStatistics>,
}

impl Rounds {
    async fn run(mut self, mut waiting: mpsc::Receiver<Waiting>) {
        while let Some(first) = waiting.recv().await {
            let mut round = vec![first];
            while round.len() < REPORTS_OF_ROUND
                && let Ok(next) = waiting.try_recv()
            {
                round.push(next);
            }
            // A store that is away may come back while an answer is still of use.
            while self.connection.is_none() && has_useful(&mut round) {
                self.connect_after_pause().await;
            }
            if !has_useful(&mut round) {
                continue;
            }
            let (reports, answers): (Vec<_>, Vec<_>) =
                round.into_iter().map(|one| ((one.report, one._room), one.answer)).unzip();
            let (reports, _rooms): (Vec<_>, Vec<_>) = reports.into_iter().unzip();
            let start = Instant::now();
            let mut answered = self.answer(&reports).await;
            if start.elapsed() > USEFUL {
                answered = answered.and(Err(StoreError::Slow));
            }
            self.note(answered.as_ref().err());
            for (waiting, answer) in answers.into_iter().zip(answered.unwrap_or_default()) {
                // A gateway that has left meanwhile needs none.
                let _ = waiting.send(answer);
            }
        }
    }

    /// Waits until the next attempt is due, and connects.
    async fn connect_after_pause(&mut self) {
        let left = self.tried.map(|tried| PAUSE.saturating_sub(tried.elapsed()));
        tokio::time::sleep(left.unwrap_or_default()).await;
        if let Err(error) = self.connect().await {
            self.note(Some(&error));
        }
    }

    fn note(&mut self, error: Option<&StoreError>) {
        let count = |number: &AtomicU64| _ = number.fetch_add(1, Ordering::Relaxed);
        count(&self.statistics.rounds);
        self.statistics.is_up.store(error.is_none(), Ordering::Relaxed);
        let Some(error) = error else {
            if self.failure.as_ref().is_none_or(|failure| !failure.is_empty()) {
                tracing::info!(store = %self.address, "limits are kept in the store");
                self.failure = Some(String::new());
            }
            return;
        };
        count(&self.statistics.failures);
        if !matches!(error, StoreError::Contended | StoreError::Slow) {
            self.connection = None;
        }
        let reason = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        let failure = format!("{error}: {reason}");
        // Once, and not at every try.
        if self.failure.as_ref() != Some(&failure) {
            tracing::warn!(store = %self.address, failure, "gateways keep their parts of shared limits for three seconds");
            self.failure = Some(failure);
        }
    }

    async fn answer(&mut self, reports: &[ProcessReport]) -> Result<Vec<ReportAnswers>, StoreError> {
        let connection = self.connection.as_mut().ok_or(StoreError::NotMaster)?;
        let key = |one: &ProcessReport| (format!("{}:process:{}:{:x}", self.prefix, one.node, one.process), one.number);
        let claimed = connection.claim(&reports.iter().map(key).collect::<Vec<_>>()).await?;
        let empty = |(one, claimed): (&ProcessReport, bool)| claimed.then(|| vec![Vec::new(); one.clusters.len()]);
        let mut answers: Vec<ReportAnswers> = reports.iter().zip(claimed).map(empty).collect();
        let mut clusters: BTreeMap<&str, Places> = BTreeMap::new();
        for (report, one) in
            reports.iter().enumerate().filter(|(report, _)| matches!(answers.get(*report), Some(Some(_))))
        {
            for (place, cluster) in one.clusters.iter().enumerate() {
                clusters.entry(&cluster.name).or_default().push((report, place));
            }
        }
        let clusters: Vec<_> = clusters.into_iter().collect();
        for some in clusters.chunks(CLUSTERS_OF_ROUND) {
            self.change(reports, some, &mut answers).await?;
        }
        Ok(answers)
    }

    async fn connect(&mut self) -> Result<(), StoreError> {
        let opened = StoreConnection::open(&self.address, &self.files, &self.prefix, &mut self.clock);
        let opened = tokio::time::timeout(OPEN, opened).await;
        self.tried = Some(Instant::now());
        self.connection = Some(opened.map_err(|_| StoreError::Slow)??);
        Ok(())
    }

    /// Takes the use of some clusters, again for those that another control plane changes meanwhile.
    async fn change(
        &mut self,
        reports: &[ProcessReport],
        clusters: &[(&str, Places)],
        answers: &mut [ReportAnswers],
    ) -> Result<(), StoreError> {
        let (start, mut pending): (_, Vec<&(&str, Places)>) = (Instant::now(), clusters.iter().collect());
        while start.elapsed() < USEFUL {
            let connection = self.connection.as_mut().ok_or(StoreError::NotMaster)?;
            let keys: Vec<_> = pending.iter().map(|(name, _)| format!("{}:limits:{name}", self.prefix)).collect();
            let loaded = connection.load(&keys, &mut self.clock).await?;
            let mut changes = Vec::with_capacity(pending.len());
            for (((name, places), key), stored) in pending.iter().zip(keys).zip(&loaded.all) {
                let owners = &self.owners;
                let read = stored.state.as_ref().and_then(|state| Limiter::read(name, state, owners, loaded.time));
                let mut limiter = read.unwrap_or_else(|| Limiter::of_owners(owners.clone()));
                for (report, place) in places {
                    let (Some(one), Some(answer)) = (reports.get(*report), answers.get_mut(*report)) else { continue };
                    exchange(&mut limiter, one, *place, answer, loaded.time);
                }
                self.writes = self.writes.wrapping_add(1);
                let after = format!("{}.{:x}", self.writer, self.writes);
                changes.push(StateWrite { key, before: stored.token.clone(), after, state: limiter.write(name) });
            }
            let saved = connection.save(&loaded, &self.writer, &changes).await?;
            let is_others_turn = saved.contains(&Saved::OthersTurn);
            let mut saved = saved.into_iter();
            pending.retain(|_| saved.next() != Some(Saved::Written));
            if pending.is_empty() {
                return Ok(());
            }
            self.statistics.conflicts.fetch_add(u64::try_from(pending.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
            if is_others_turn {
                tokio::time::sleep(OTHERS_TURN).await;
            }
        }
        Err(StoreError::Contended)
    }
}

/// Whether any of the reports still needs an answer; the others are dropped.
fn has_useful(round: &mut Vec<Waiting>) -> bool {
    round.retain(|one| !one.answer.is_closed() && one.since.elapsed() < USEFUL);
    !round.is_empty()
}

/// Takes the use of one cluster out of a report.
fn exchange(limiter: &mut Limiter, report: &ProcessReport, place: usize, answers: &mut ReportAnswers, now: Duration) {
    let Some(cluster) = report.clusters.get(place) else { return };
    limiter.configure_cluster(&cluster.name, &cluster.limits, now);
    let holder = match limiter.holder(&report.node, report.process, report.number, now) {
        Ok(holder) => Some(holder),
        // Local limits hold for this cluster, and the parts of the others are reserved already.
        Err(HolderRefusal::TooMany) => None,
        Err(HolderRefusal::Old) => {
            *answers = None;
            return;
        }
    };
    let of = |(schema, used): &(String, PartUse)| limiter.exchange(holder?, &cluster.name, schema, *used, now);
    let parts = cluster.uses.iter().map(of).collect();
    if let Some(answer) = answers.as_mut().and_then(|answers| answers.get_mut(place)) {
        *answer = parts;
    }
}

#[cfg(test)]
mod tests {
    use portcullis_filter_config::{FlowControlLimit, GlobalStrategy};

    use super::*;

    /// A report of one process of a node, about the limit of two clusters.
    fn report(node: &str, number: u64) -> ProcessReport {
        let limit = FlowControlLimit::MaxRequestsInflight(10);
        let limits = BTreeMap::from([("few".to_owned(), GlobalLimit { limit, strategy: GlobalStrategy::Allocate })]);
        let limits = Arc::new(limits);
        let used = PartUse { is_leased: true, held: 1, wanted: 1, ..PartUse::default() };
        let clusters = ["crowded", "empty"].map(|name| ClusterExchange {
            name: name.to_owned(),
            limits: Arc::clone(&limits),
            uses: vec![("few".to_owned(), used)],
        });
        ProcessReport { node: node.to_owned(), process: 1, number, clusters: clusters.into(), bytes: 1 }
    }

    #[test]
    fn cluster_with_too_many_processes_leaves_the_others_theirs() {
        let now = Duration::from_secs(1);
        let owners = NodeOwners::new(|_| Some("guest".to_owned()));
        let [mut crowded, mut empty] = [(); 2].map(|()| Limiter::of_owners(owners.clone()));
        let others = (0..1_000).map(|other| crowded.holder(&format!("other-{other}"), 1, 1, now));
        assert!(others.filter(Result::is_err).count() > 0);
        let mut answers = Some(vec![Vec::new(); 2]);
        exchange(&mut crowded, &report("node", 2), 0, &mut answers, now);
        exchange(&mut empty, &report("node", 2), 1, &mut answers, now);
        let answers = answers.unwrap();
        assert_eq!(answers[0], [None], "a local limit");
        assert_eq!(answers[1][0].unwrap().part.map(|part| part.quota), Some(1), "a limiter that learns renews it");
        let mut late = Some(vec![Vec::new(); 2]);
        exchange(&mut empty, &report("node", 1), 1, &mut late, now);
        assert!(late.is_none(), "a newer report was answered");
    }
}

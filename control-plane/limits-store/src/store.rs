//! Reports that wait for the store, and rounds in which all of them are answered.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_filter_config::GlobalLimit;
use portcullis_filter_config::limits::PartUse;
use portcullis_limits::{LimitAnswer, Limiter};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::address::StoreAddress;
use crate::connection::{StateWrite, StoreConnection, StoreError, StoreFiles};

/// Reports that wait at most, and KiB of them; others get no answer and come again.
const WAITING: usize = 4_096;
const WAITING_KIB: usize = 64 << 10;
/// Reports, and clusters, that are answered together at most.
const REPORTS_OF_ROUND: usize = 256;
const CLUSTERS_OF_ROUND: usize = 256;
/// Times that a change is made anew because another control plane was faster. In each round one of them was.
const ATTEMPTS: usize = 32;
/// The pause after a connection that failed, and the time for one, sentinels included.
const PAUSE: Duration = Duration::from_secs(1);
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

/// A report that waits, and where its answers go.
type Waiting = (ProcessReport, oneshot::Sender<ReportAnswers>);

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
    room: Semaphore,
    statistics: Arc<StoreStatistics>,
}

impl LimitStore {
    /// Starts the task. `prefix` begins each key.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn start(address: StoreAddress, files: StoreFiles, prefix: String) -> Self {
        let (reports, waiting) = mpsc::channel(WAITING);
        let statistics = Arc::new(StoreStatistics::default());
        let rounds = Rounds {
            address,
            files,
            prefix,
            connection: None,
            tried: None,
            failure: String::new(),
            writer: RandomState::new().build_hasher().finish(),
            writes: 0,
            statistics: Arc::clone(&statistics),
        };
        tokio::spawn(rounds.run(waiting));
        Self { reports, room: Semaphore::new(WAITING_KIB), statistics }
    }

    /// Numbers about it.
    pub fn statistics(&self) -> Arc<StoreStatistics> {
        Arc::clone(&self.statistics)
    }

    /// The answers to a report, `None` if it gets none: the store is away, or the report is not the newest one of its process.
    pub async fn exchange(&self, report: ProcessReport) -> ReportAnswers {
        let room = u32::try_from(report.bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let _room = self.room.try_acquire_many(room).ok()?;
        let (sender, answer) = oneshot::channel();
        if let Err(TrySendError::Closed(_)) = self.reports.try_send((report, sender)) {
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
    connection: Option<StoreConnection>,
    /// The last attempt to connect.
    tried: Option<Instant>,
    /// The failure that was logged last; empty after an answer.
    failure: String,
    /// A number of this process, and one of its writes: together the token of a write.
    writer: u64,
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
            round.retain(|(_, answer)| !answer.is_closed());
            let (reports, senders): (Vec<_>, Vec<_>) = round.into_iter().unzip();
            let has_paused = self.connection.is_some() || self.tried.is_none_or(|tried| tried.elapsed() >= PAUSE);
            if reports.is_empty() || !has_paused {
                continue;
            }
            let answers = self.answer(&reports).await;
            self.note(answers.as_ref().err());
            for (sender, answer) in senders.into_iter().zip(answers.unwrap_or_default()) {
                // A gateway that has left meanwhile needs none.
                let _ = sender.send(answer);
            }
        }
    }

    fn note(&mut self, error: Option<&StoreError>) {
        let count = |number: &AtomicU64| _ = number.fetch_add(1, Ordering::Relaxed);
        count(&self.statistics.rounds);
        self.statistics.is_up.store(error.is_none(), Ordering::Relaxed);
        let Some(error) = error else {
            self.failure.clear();
            return;
        };
        count(&self.statistics.failures);
        if !matches!(error, StoreError::Contended) {
            self.connection = None;
        }
        let reason = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        let failure = format!("{error}: {reason}");
        // Once, and not at every try.
        if failure != self.failure {
            tracing::warn!(store = %self.address, failure, "gateways keep their parts of shared limits for four seconds");
            self.failure = failure;
        }
    }

    async fn answer(&mut self, reports: &[ProcessReport]) -> Result<Vec<ReportAnswers>, StoreError> {
        self.connect().await?;
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
        if self.connection.is_none() {
            self.tried = Some(Instant::now());
            let opened = StoreConnection::open(&self.address, &self.files, &self.prefix);
            let opened = tokio::time::timeout(OPEN, opened).await.map_err(|_| StoreError::Slow)??;
            tracing::info!(store = %self.address, "limits are kept in the store");
            self.connection = Some(opened);
        }
        Ok(())
    }

    /// Takes the use of some clusters, again for those that another control plane changes meanwhile.
    async fn change(
        &mut self,
        reports: &[ProcessReport],
        clusters: &[(&str, Places)],
        answers: &mut [ReportAnswers],
    ) -> Result<(), StoreError> {
        let mut pending: Vec<&(&str, Places)> = clusters.iter().collect();
        for _ in 0..ATTEMPTS {
            let connection = self.connection.as_mut().ok_or(StoreError::NotMaster)?;
            let keys: Vec<_> = pending.iter().map(|(name, _)| format!("{}:limits:{name}", self.prefix)).collect();
            let loaded = connection.load(&keys).await?;
            let mut changes = Vec::with_capacity(pending.len());
            for (((name, places), key), stored) in pending.iter().zip(keys).zip(loaded.all) {
                let read = stored.state.and_then(|state| Limiter::read(name, &state));
                let mut limiter = read.unwrap_or_default();
                for (report, place) in places {
                    let (Some(one), Some(answer)) = (reports.get(*report), answers.get_mut(*report)) else { continue };
                    exchange(&mut limiter, one, *place, answer, loaded.time);
                }
                self.writes = self.writes.wrapping_add(1);
                let after = format!("{:x}.{:x}", self.writer, self.writes);
                changes.push(StateWrite { key, before: stored.token, after, state: limiter.write(name) });
            }
            let saved = connection.save(&loaded.origin, &changes).await?;
            let mut saved = saved.into_iter();
            pending.retain(|_| !saved.next().unwrap_or_default());
            if pending.is_empty() {
                return Ok(());
            }
            self.statistics.conflicts.fetch_add(u64::try_from(pending.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        Err(StoreError::Contended)
    }
}

/// Takes the use of one cluster out of a report.
fn exchange(limiter: &mut Limiter, report: &ProcessReport, place: usize, answers: &mut ReportAnswers, now: Duration) {
    let Some(cluster) = report.clusters.get(place) else { return };
    limiter.configure_cluster(&cluster.name, &cluster.limits, now);
    let Ok(holder) = limiter.holder(&report.node, report.process, report.number, now) else {
        *answers = None;
        return;
    };
    let of = |(schema, used): &(String, PartUse)| limiter.exchange(holder, &cluster.name, schema, *used, now);
    let parts = cluster.uses.iter().map(of).collect();
    if let Some(answer) = answers.as_mut().and_then(|answers| answers.get_mut(place)) {
        *answer = parts;
    }
}

//! Reports of this Envoy's activity to control planes, by callouts of a filter configuration, where no agent reads it. Each
//! report is a whole gRPC stream in one request. Reports are written on the timer's thread and sent from Envoy's main thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use envoy_abi::http::{CalloutId, CalloutResponse, ConfigScheduler, MainThread};
use envoy_abi::log;
use portcullis_filter_config::ActivityReports as ReportConfig;
use portcullis_report::{ACKNOWLEDGEMENT_BYTES, ActivityPage, STREAM_REPORTS, request_body};

use crate::memory::{self, uptime};
use crate::timer::{Task, run_at};

/// Time for a report: a control plane reads one part a second.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a report that was not taken is followed by another one.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Longest report.
const MAX_BYTES: usize = 8 << 20;
/// The host of a report's request.
const AUTHORITY: &str = "portcullis";
/// The kernel's name of the host: in Kubernetes that of the pod.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// The uptime of the next report to each Envoy cluster. Each listener has a configuration, and all report the same process.
static NEXT: Mutex<BTreeMap<String, Duration>> = Mutex::new(BTreeMap::new());

/// The reports of one filter configuration; none where it asks for none.
#[derive(Debug)]
pub(crate) struct ActivityReports(Option<Arc<Reporter>>);

#[derive(Debug)]
struct Reporter {
    node: String,
    interval: Duration,
    clusters: Vec<String>,
    process: u64,
    /// `None` once the configuration is gone.
    scheduler: Mutex<Option<ConfigScheduler>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    unsent: Option<Report>,
    /// The report whose callout is being started: Envoy may answer within the call.
    starting: Option<Sent>,
    sent: BTreeMap<CalloutId, Sent>,
    /// The failure that was logged last, by Envoy cluster.
    failures: BTreeMap<String, Failure>,
}

#[derive(Debug)]
struct Report {
    body: Vec<u8>,
    parts: usize,
    /// The Envoy clusters whose turn it is.
    clusters: Vec<String>,
}

/// A report under way.
#[derive(Clone, Debug)]
struct Sent {
    cluster: String,
    parts: usize,
    at: Duration,
}

/// The reason that a report was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    Cluster,
    Unanswered,
    Status(u16),
    Grpc(u16),
    Refused,
    Size,
}

impl ActivityReports {
    /// Begins to report, if the configuration asks for it.
    pub(crate) fn new(config: Option<&ReportConfig>, scheduler: impl FnOnce() -> ConfigScheduler) -> Self {
        let Some(config) = config else { return Self(None) };
        let (Some(node), Some(process)) = (node_id(&config.node), memory::process()) else {
            log::error("portcullis: the activity is not reported: the system has no host name or no randomness");
            return Self(None);
        };
        let reporter = Arc::new(Reporter {
            node,
            interval: Duration::from_secs(config.interval_seconds.into()),
            clusters: config.clusters.clone(),
            process,
            scheduler: Mutex::new(Some(scheduler())),
            state: Mutex::default(),
        });
        run_at(&reporter, uptime(Instant::now()));
        Self(Some(reporter))
    }

    /// Sends a report that is written.
    pub(crate) fn send(&self, main: &mut MainThread) {
        let Some(reporter) = &self.0 else { return };
        let Some(report) = reporter.state().unsent.take() else { return };
        for cluster in report.clusters {
            reporter.send(cluster, report.parts, &report.body, main);
        }
    }

    /// Takes the response to a callout. False if the callout is none of these.
    pub(crate) fn done(&self, id: CalloutId, response: &CalloutResponse<'_>) -> bool {
        let Some(reporter) = &self.0 else { return false };
        let sent = {
            let mut state = reporter.state();
            state.sent.remove(&id).or_else(|| state.starting.take())
        };
        let Some(sent) = sent else { return false };
        let failure = failure(response, sent.parts);
        reporter.finish(&sent, failure);
        true
    }
}

impl Drop for ActivityReports {
    fn drop(&mut self) {
        let Some(reporter) = &self.0 else { return };
        *reporter.scheduler.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // Their responses do not come any more: another configuration may report at once.
        let sent = std::mem::take(&mut reporter.state().sent);
        sent.into_values().for_each(|sent| schedule(sent.cluster, Duration::ZERO));
    }
}

impl Task for Reporter {
    fn run(self: Arc<Self>) {
        let now = uptime(Instant::now());
        let scheduler = self.scheduler.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(scheduler) = &*scheduler else { return };
        let clusters = self.claim(now);
        if !clusters.is_empty() {
            let parts = ActivityPage::default().succeeded_by(&memory::activity(self.process)).parts(None);
            let body = request_body(&self.node, &parts);
            self.state().unsent = Some(Report { body, parts: parts.len(), clusters });
            scheduler.wake();
        }
        run_at(&self, now.saturating_add(self.interval));
    }
}

impl Reporter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Envoy clusters whose turn it is, which no other configuration reports to meanwhile.
    fn claim(&self, now: Duration) -> Vec<String> {
        let mut next = next();
        let is_due = |cluster: &&String| next.get(*cluster).is_none_or(|at| *at <= now);
        let due: Vec<String> = self.clusters.iter().filter(is_due).cloned().collect();
        next.retain(|_, at| *at > now);
        next.extend(due.iter().map(|cluster| (cluster.clone(), now.saturating_add(TIMEOUT))));
        due
    }

    fn send(self: &Arc<Self>, cluster: String, parts: usize, body: &[u8], main: &mut MainThread) {
        let sent = Sent { cluster, parts, at: uptime(Instant::now()) };
        if body.len() > MAX_BYTES {
            return self.finish(&sent, Some(Failure::Size));
        }
        self.state().starting = Some(sent.clone());
        let headers = [
            (":method", "POST"),
            (":path", STREAM_REPORTS),
            // Not the name of the Envoy cluster, which may be none: Istio's have a bar.
            (":authority", AUTHORITY),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let timeout = u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let id = main.callout(&sent.cluster, &headers, body, timeout);
        let mut state = self.state();
        // Otherwise the response has come already.
        let Some(sent) = state.starting.take() else { return };
        match id {
            Some(id) => drop(state.sent.insert(id, sent)),
            None => {
                drop(state);
                self.finish(&sent, Some(Failure::Cluster));
            }
        }
    }

    /// Schedules the next report.
    fn finish(self: &Arc<Self>, sent: &Sent, failure: Option<Failure>) {
        let now = uptime(Instant::now());
        let at = match failure {
            None => sent.at.saturating_add(self.interval).max(now),
            Some(Failure::Refused | Failure::Size) => now.saturating_add(self.interval),
            Some(_) => now.saturating_add(RETRY_AFTER),
        };
        schedule(sent.cluster.clone(), at);
        run_at(self, at);
        self.log(&sent.cluster, failure);
    }

    /// Logs a failure once, and not at every report.
    fn log(&self, cluster: &str, failure: Option<Failure>) {
        let Some(failure) = failure else {
            self.state().failures.remove(cluster);
            return;
        };
        let before = self.state().failures.insert(cluster.to_owned(), failure.clone());
        if before.as_ref() == Some(&failure) {
            return;
        }
        let node = &self.node;
        let reason = match failure {
            Failure::Cluster => "there is no Envoy cluster of this name, or it has no endpoint".to_owned(),
            Failure::Unanswered => "no answer came".to_owned(),
            Failure::Status(status) => format!("HTTP status {status}"),
            Failure::Grpc(status) => format!("gRPC status {status}"),
            Failure::Refused => format!("it was refused; {node:?} has to be a name of the client certificate"),
            Failure::Size => "it is too long".to_owned(),
        };
        log::error(&format!("portcullis: the activity is not reported to {cluster:?}: {reason}"));
    }
}

/// The reason that a report of that many parts was not taken, if it was not. Envoy hands no trailers on, and with them not the
/// status of gRPC: every part has its acknowledgement in the body.
fn failure(response: &CalloutResponse<'_>, parts: usize) -> Option<Failure> {
    let bytes: usize = response.chunks.iter().map(|chunk| chunk.len()).sum();
    if let Some(status) = response.grpc_status.filter(|status| *status != 0) {
        return Some(Failure::Grpc(status));
    }
    match response.status {
        0 => Some(Failure::Unanswered),
        200 if bytes == parts.saturating_mul(ACKNOWLEDGEMENT_BYTES) => None,
        200 => Some(Failure::Refused),
        status => Some(Failure::Status(status)),
    }
}

fn next() -> MutexGuard<'static, BTreeMap<String, Duration>> {
    NEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn schedule(cluster: String, at: Duration) {
    next().insert(cluster, at);
}

/// The gateway's name, with the name of the host in place of a `*`. `None` where the host has none.
fn node_id(name: &str) -> Option<String> {
    let Some(domain) = name.strip_prefix("*.") else { return Some(name.to_owned()) };
    let host = std::fs::read_to_string(HOST_NAME_FILE).ok()?;
    let label = host.trim().split('.').next().filter(|label| !label.is_empty())?;
    Some(format!("{label}.{domain}"))
}

//! Reports of this Envoy's activity to control planes, by callouts of a filter configuration, where no agent reads it. Each
//! report is a whole gRPC stream in one request. Reports are written on the timer's thread and sent from Envoy's main thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use envoy_abi::http::{CalloutId, CalloutResponse, ConfigScheduler, MainThread};
use envoy_abi::log;
use portcullis_core::schedule::Task;
use portcullis_filter_config::ActivityReports as ReportConfig;
use portcullis_report::REQUEST_HEADERS;
use portcullis_report::reporter::{CalloutAnswer, Ended, Reporter, TIMEOUT, Turns, node_id};

use crate::memory::{self, uptime};
use crate::timer::run_at;

/// The kernel's name of the host: in Kubernetes that of the pod.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

static TURNS: Turns = Turns::new();

/// The reports of one filter configuration; none where it asks for none.
#[derive(Debug)]
pub(crate) struct ActivityReports(Option<Arc<ReportTask>>);

#[derive(Debug)]
struct ReportTask {
    reporter: Reporter<CalloutId>,
    process: u64,
    /// `None` once the configuration is gone.
    scheduler: Mutex<Option<ConfigScheduler>>,
}

impl ActivityReports {
    /// Begins to report, if the configuration asks for it.
    pub(crate) fn new(config: Option<&ReportConfig>, scheduler: impl FnOnce() -> ConfigScheduler) -> Self {
        let Some(config) = config else { return Self(None) };
        let (Some(node), Some(process)) = (node_named(&config.node), *memory::PROCESS) else {
            log::error("portcullis: the activity is not reported: the system has no host name or no randomness");
            return Self(None);
        };
        let scheduler = Mutex::new(Some(scheduler()));
        let task = Arc::new(ReportTask { reporter: Reporter::new(config, node), process, scheduler });
        run_at(&task, uptime(Instant::now()));
        Self(Some(task))
    }

    /// Sends a report that is written.
    pub(crate) fn send(&self, main: &mut MainThread) {
        let Some(task) = &self.0 else { return };
        let timeout = u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let callout = |cluster: &str, body: &[u8]| main.callout(cluster, &REQUEST_HEADERS, body, timeout);
        let ended = task.reporter.send(&TURNS, uptime(Instant::now()), callout);
        ended.into_iter().for_each(|ended| task.end(ended));
    }

    /// Takes the response to a callout. False if the callout is none of these.
    pub(crate) fn done(&self, id: CalloutId, response: &CalloutResponse<'_>) -> bool {
        let Some(task) = &self.0 else { return false };
        let bytes = response.chunks.iter().map(|chunk| chunk.len()).sum();
        let answer = CalloutAnswer { status: response.status, grpc_status: response.grpc_status, bytes };
        let ended = task.reporter.answered(&TURNS, &id, answer, uptime(Instant::now()));
        ended.map(|ended| task.end(ended)).is_some()
    }
}

/// The gateway's name, by that of the configuration.
pub(crate) fn node_named(name: &str) -> Option<String> {
    node_id(name, || std::fs::read_to_string(HOST_NAME_FILE).ok())
}

impl Drop for ActivityReports {
    fn drop(&mut self) {
        let Some(task) = &self.0 else { return };
        *task.scheduler() = None;
        task.reporter.give_up(&TURNS);
    }
}

impl ReportTask {
    fn scheduler(&self) -> MutexGuard<'_, Option<ConfigScheduler>> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(self: &Arc<Self>, Ended { next, failure }: Ended) {
        run_at(self, next);
        if let Some(failure) = failure {
            log::error(&format!("portcullis: {failure}"));
        }
    }
}

impl Task for ReportTask {
    fn run(&self, uptime: Duration) -> Option<Duration> {
        let _ = self.scheduler().as_ref()?;
        // Without the lock: Envoy's main thread takes it when the configuration goes, and a large report takes a while.
        let is_written = self.reporter.write(&TURNS, uptime, || memory::activity(self.process));
        match &*self.scheduler() {
            Some(scheduler) if is_written => scheduler.wake(),
            Some(_) => {}
            // It went meanwhile, and nothing sends the report or gives its turn back.
            None => {
                self.reporter.give_up(&TURNS);
                return None;
            }
        }
        Some(uptime.saturating_add(self.reporter.interval()))
    }
}

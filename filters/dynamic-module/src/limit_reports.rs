//! Exchanges of this Envoy with control planes about limits of all gateways, by callouts of a filter configuration, where no agent
//! carries them. Reports are written on the timer's thread, sent from Envoy's main thread, and answered there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use envoy_abi::http::{CalloutId, CalloutResponse, ConfigScheduler, MainThread};
use envoy_abi::log;
use portcullis_core::schedule::Task;
use portcullis_filter_config::LimitExchanges;
use portcullis_report::exchanger::{
    ANSWER_TIMEOUT, ExchangeEnd, ExchangeResponse, ExchangeTurn, Exchanger, HEADERS, Written,
};

use crate::activity_reports::node_named;
use crate::memory::{self, uptime};
use crate::timer::run_at;
use crate::{agent, limits};

static TURN: ExchangeTurn = ExchangeTurn::new();
/// The last value of the metric, which all configurations have together.
static SHOWN_AS_DEGRADED: AtomicBool = AtomicBool::new(false);

/// The exchanges of one filter configuration; none where it asks for none.
#[derive(Debug)]
pub(crate) struct LimitReports(Option<Arc<ExchangeTask>>);

#[derive(Debug)]
struct ExchangeTask {
    exchanger: Exchanger<CalloutId>,
    process: u64,
    /// `None` once the configuration is gone.
    scheduler: Mutex<Option<ConfigScheduler>>,
}

impl LimitReports {
    /// Begins with exchanges, if the configuration asks for them and no agent has them.
    pub(crate) fn new(config: Option<&LimitExchanges>, scheduler: impl FnOnce() -> ConfigScheduler) -> Self {
        let Some(config) = config.filter(|_| !agent::is_there()) else { return Self(None) };
        let (Some(node), Some(process)) = (node_named(&config.node), *memory::PROCESS) else {
            log::error(
                "portcullis: limits of all gateways are not shared: the system has no host name or no randomness",
            );
            return Self(None);
        };
        let scheduler = Mutex::new(Some(scheduler()));
        let task = Arc::new(ExchangeTask { exchanger: Exchanger::new(config, node), process, scheduler });
        run_at(&task, uptime(Instant::now()));
        Self(Some(task))
    }

    /// Sends a report that is written.
    pub(crate) fn send(&self, main: &mut MainThread) {
        let Some(task) = &self.0 else { return };
        let timeout = u64::try_from(ANSWER_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let callout = |cluster: &str, body: &[u8]| main.callout(cluster, &HEADERS, body, timeout);
        let ended = task.exchanger.send(&TURN, uptime(Instant::now()), callout);
        ended.into_iter().for_each(|ended| task.end(&ended));
    }

    /// Whether local limits hold in the place of those that gateways share, if that is another answer than before.
    pub(crate) fn news_of_degradation(&self) -> Option<bool> {
        self.0.as_ref()?;
        let is_degraded = limits::are_degraded();
        (SHOWN_AS_DEGRADED.swap(is_degraded, Ordering::Relaxed) != is_degraded).then_some(is_degraded)
    }

    /// Takes the response to a callout. False if the callout is none of these.
    pub(crate) fn done(&self, id: CalloutId, response: &CalloutResponse<'_>) -> bool {
        let Some(task) = &self.0 else { return false };
        let CalloutResponse { status, grpc_status, chunks, .. } = response;
        let response = ExchangeResponse { status: *status, grpc_status: *grpc_status, chunks };
        let ended = task.exchanger.answered(&TURN, &id, response, uptime(Instant::now()));
        ended.map(|ended| task.end(&ended)).is_some()
    }
}

impl Drop for LimitReports {
    fn drop(&mut self) {
        let Some(task) = &self.0 else { return };
        *task.scheduler() = None;
        task.exchanger.give_up(&TURN);
    }
}

impl ExchangeTask {
    fn scheduler(&self) -> MutexGuard<'_, Option<ConfigScheduler>> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(self: &Arc<Self>, ExchangeEnd { parts, next, failure }: &ExchangeEnd) {
        parts.iter().for_each(limits::apply);
        run_at(self, *next);
        if let Some(failure) = failure {
            log::error(&format!("portcullis: {failure}"));
        }
    }
}

impl Task for ExchangeTask {
    fn run(&self, uptime: Duration) -> Option<Duration> {
        let _ = self.scheduler().as_ref()?;
        // Without the lock: Envoy's main thread takes it when the configuration goes, and a long report takes a while.
        let Written { is_written, next } = self.exchanger.write(&TURN, uptime, || limits::report(self.process));
        let has_news = is_written || limits::are_degraded() != SHOWN_AS_DEGRADED.load(Ordering::Relaxed);
        match &*self.scheduler() {
            Some(scheduler) if has_news => scheduler.wake(),
            Some(_) => {}
            // It went meanwhile, and nothing sends the report or gives its turn back.
            None => {
                self.exchanger.give_up(&TURN);
                return None;
            }
        }
        Some(next)
    }
}

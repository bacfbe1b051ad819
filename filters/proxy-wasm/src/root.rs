use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use portcullis_core::Gateway;
use portcullis_core::observe::FLUSH_INTERVAL;
use portcullis_filter_config::PeerSource;

use crate::abi::Hostcalls;
use crate::limit_exchange::LimitExchange;
use crate::metrics::Metrics;
use crate::reviews::RETRY_INTERVAL;

/// One configuration of the filter: what a root context is to Envoy.
pub(crate) struct Root {
    pub(crate) gateway: Gateway,
    pub(crate) metrics: Metrics,
    /// The uptime at which Envoy was asked to call it next.
    pub(crate) due: Cell<Option<Duration>>,
    /// Time after which the shared state is to be maintained, if it is.
    pub(crate) maintenance: Cell<Option<Duration>>,
    /// The exchange about limits of all gateways, if the configuration asks for it.
    pub(crate) exchange: Option<LimitExchange>,
}

impl Root {
    /// Compiles a configuration. `None` refuses it, and says why in Envoy's log.
    pub(crate) fn compile(text: &[u8], host: &impl Hostcalls) -> Option<Rc<Root>> {
        let sources = [PeerSource::ForwardedClientCert, PeerSource::Connection];
        let gateway = Gateway::load(text, &sources).map_err(|error| host.log(&error.to_string())).ok()?;
        if gateway.activity().is_some() {
            // VMs share no memory: none of them knows the activity of the process.
            host.log("portcullis: portcullis.wasm reports no activity");
            return None;
        }
        let exchange = gateway.global_limits().map(|limits| LimitExchange::new(limits, host));
        let (due, maintenance) = (Cell::new(None), Cell::new(None));
        Some(Rc::new(Root { gateway, metrics: Metrics::new(host), due, maintenance, exchange }))
    }

    /// Has it called when something is due: a question, the end of streams at `ends`, metrics, maintenance, or an exchange.
    /// It is `now`, if that is known.
    pub(crate) fn arm(&self, should_retry: bool, ends: Option<Duration>, now: Option<Duration>, host: &impl Hostcalls) {
        let maintenance = self.maintenance.get();
        let exchange = self.exchange.as_ref().and_then(LimitExchange::next);
        let has_work = should_retry || self.metrics.has_news() || maintenance.is_some();
        let is_idle = !has_work && ends.is_none() && exchange.is_none();
        let Some(now) = (if is_idle { None } else { now.or_else(|| host.uptime()) }) else { return };
        let soonest = [
            should_retry.then_some(RETRY_INTERVAL),
            ends.map(|end| end.saturating_sub(now)),
            self.metrics.has_news().then_some(FLUSH_INTERVAL),
            maintenance,
            exchange.map(|at| at.saturating_sub(now)),
        ];
        let Some(after) = soonest.into_iter().flatten().min() else { return };
        // Envoy's timers know whole milliseconds, and none is none at all.
        let after = after.saturating_add(Duration::from_millis(1));
        let at = now.saturating_add(after);
        if self.due.get().is_none_or(|due| at < due) {
            self.due.set(Some(at));
            host.tick_every(after);
        }
    }
}

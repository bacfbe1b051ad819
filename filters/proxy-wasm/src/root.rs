use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use portcullis_core::Gateway;
use portcullis_filter_config::{FilterConfig, PeerSource};

use crate::hostcalls::Hostcalls;
use crate::metrics::{self, Metrics};
use crate::reviews::AGAIN;
use crate::shared_in_flight::RENEWED;

/// How often it is looked for what got too old.
const FORGETS: Duration = Duration::from_secs(10);

/// One configuration of the filter: what a root context is to Envoy.
pub(crate) struct Root {
    pub(crate) gateway: Gateway,
    pub(crate) metrics: Metrics,
    /// The uptime at which Envoy was asked to call it next.
    pub(crate) due: Cell<Option<Duration>>,
    /// Whether this VM has to say again and again that it holds places.
    pub(crate) holds_places: Cell<bool>,
    /// Whether this VM has to forget again and again what gets too old.
    pub(crate) remembers: Cell<bool>,
}

impl Root {
    /// Compiles a configuration. `None` refuses it, and says why in Envoy's log.
    pub(crate) fn compile(text: &[u8], host: &impl Hostcalls) -> Option<Rc<Root>> {
        let config: FilterConfig = serde_json::from_slice(text)
            .map_err(|error| host.log(&format!("portcullis: the configuration does not parse: {error}")))
            .ok()?;
        if config.peer_source != PeerSource::ForwardedClientCert {
            host.log("portcullis: in wasm, certificates come by peerSource ForwardedClientCert only");
            return None;
        }
        let gateway = Gateway::compile(&config).map_err(|error| host.log(&format!("portcullis: {error}"))).ok()?;
        Some(Rc::new(Root {
            gateway,
            metrics: Metrics::new(host),
            due: Cell::new(None),
            holds_places: Cell::new(false),
            remembers: Cell::new(false),
        }))
    }

    /// Has it called when something is due: a question, the end of streams at `ends`, metrics, or a word about places.
    pub(crate) fn arm(&self, should_retry: bool, ends: Option<Duration>, host: &impl Hostcalls) {
        let is_idle = !should_retry
            && ends.is_none()
            && !self.metrics.has_news()
            && !self.holds_places.get()
            && !self.remembers.get();
        let Some(now) = (if is_idle { None } else { host.uptime() }) else { return };
        let soonest = [
            should_retry.then_some(AGAIN),
            ends.map(|end| end.saturating_sub(now)),
            self.metrics.has_news().then_some(metrics::PERIOD),
            self.holds_places.get().then_some(RENEWED),
            self.remembers.get().then_some(FORGETS),
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

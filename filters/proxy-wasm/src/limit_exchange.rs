//! Exchanges with control planes about limits of all gateways, by callouts of a root context. All VMs count together, and one of them at
//! a time reports for all ([`SharedLimits`]).

use std::cell::Cell;
use std::time::Duration;

use portcullis_core::state_store::SharedLimits;
use portcullis_filter_config::LimitExchanges;
use portcullis_report::exchanger::{
    ANSWER_TIMEOUT, ExchangeClaim, ExchangeEnd, ExchangeResponse, Exchanger, HEADERS, MAX_RESPONSE, Written,
};
use portcullis_report::limits::encode_use;
use portcullis_report::reporter::node_id;

use crate::abi::{Hostcalls, Map};

/// Names of Envoy's node, whose first label takes the place of the host's: that of the pod where Istio's agent writes it.
const NODE_NAMES: [&str; 2] = ["xds\0node\0metadata\0NAME", "xds\0node\0id"];

/// The exchange of one root context.
pub(crate) struct LimitExchange {
    /// `None` where the node has no name.
    exchanger: Option<Exchanger<u32>>,
    /// The uptime at which to look again.
    next: Cell<Duration>,
}

struct SharedTurn<'a, H>(&'a SharedLimits<H>);

impl<H: Hostcalls> ExchangeClaim for SharedTurn<'_, H> {
    fn claim(&self, now: Duration, until: Duration) -> bool {
        self.0.claim(now, until)
    }

    fn set(&self, at: Duration) {
        // A worker that took over meanwhile has set its own.
        let _ = self.0.set_next(at);
    }
}

impl LimitExchange {
    pub(crate) fn new(config: &LimitExchanges, host: &impl Hostcalls) -> Self {
        let name = |property: &&str| String::from_utf8(host.property(property)?).ok().filter(|name| !name.is_empty());
        let node = node_id(&config.node, || NODE_NAMES.iter().find_map(name));
        if node.is_none() {
            host.log("portcullis: limits of all gateways are not shared: Envoy's node has no name");
        }
        let exchanger = node.map(|node| Exchanger::new(config, node));
        LimitExchange { exchanger, next: Cell::new(Duration::ZERO) }
    }

    /// The uptime at which it is to be called.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.exchanger.as_ref().map(|_| self.next.get())
    }

    /// Sends a report if it is time for one. To be called for the root context.
    pub(crate) fn run<H: Hostcalls>(&self, limits: &SharedLimits<H>, uptime: Duration, host: &H) {
        let Some(exchanger) = self.exchanger.as_ref().filter(|_| self.next.get() <= uptime) else { return };
        limits.renew(uptime);
        let turn = SharedTurn(limits);
        let Written { is_written, next } = exchanger.write(&turn, uptime, || report(limits, uptime));
        self.next.set(next);
        if !is_written {
            return;
        }
        let timeout = u32::try_from(ANSWER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        let callout = |cluster: &str, body: &[u8]| host.callout(cluster, &HEADERS, body, timeout);
        let ended = exchanger.send(&turn, uptime, callout);
        ended.into_iter().for_each(|ended| self.end(ended, limits, uptime, host));
    }

    /// Takes the present response to a callout. False if the callout is another one.
    pub(crate) fn done<H: Hostcalls>(
        &self,
        token: u32,
        has_headers: bool,
        limits: &SharedLimits<H>,
        uptime: Duration,
        host: &H,
    ) -> bool {
        let Some(exchanger) = self.exchanger.as_ref().filter(|exchanger| exchanger.has_sent(&token)) else {
            return false;
        };
        let header = |name: &str| {
            let value = host.header(Map::Callout, name).filter(|_| has_headers)?;
            std::str::from_utf8(&value).ok()?.parse().ok()
        };
        let (status, grpc_status) = (header(":status").unwrap_or(0), header("grpc-status"));
        let body = host.callout_body(MAX_RESPONSE.saturating_add(1)).filter(|_| has_headers).unwrap_or_default();
        let response = ExchangeResponse { status, grpc_status, chunks: &[&body] };
        let ended = exchanger.answered(&SharedTurn(limits), &token, response, uptime);
        ended.map(|ended| self.end(ended, limits, uptime, host)).is_some()
    }

    /// Gives the turn back.
    pub(crate) fn give_up<H: Hostcalls>(&self, limits: &SharedLimits<H>) {
        self.exchanger.iter().for_each(|exchanger| exchanger.give_up(&SharedTurn(limits)));
    }

    fn end<H: Hostcalls>(&self, ended: ExchangeEnd, limits: &SharedLimits<H>, uptime: Duration, host: &H) {
        let ExchangeEnd { parts, next, failure } = ended;
        self.next.set(next);
        if let Some(parts) = parts {
            limits.apply(parts.number, parts.parts(), uptime);
        }
        if let Some(failure) = failure {
            host.log(&format!("portcullis: {failure}"));
        }
    }
}

/// A report of the use of all parts; empty if there are none.
fn report<H: Hostcalls>(limits: &SharedLimits<H>, uptime: Duration) -> Vec<u8> {
    let report = limits.report(uptime);
    if report.parts.is_empty() {
        return Vec::new();
    }
    let parts = report.parts.iter().map(|(name, used)| (name.cluster.as_str(), name.schema.as_str(), *used));
    encode_use(limits.process(), report.number, parts)
}

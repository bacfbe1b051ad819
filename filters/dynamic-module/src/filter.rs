use std::time::Instant;

use envoy_abi::http::{
    BodyStatus, CalloutId, CalloutResponse, ConfigHandle, FilterConfig, FilterHandle, HeadersStatus, MainThread,
};
use envoy_abi::log;
use portcullis_core::exchange::{Exchange, Next, RouteConfig};
use portcullis_core::next_turn::TurnPlace;
use portcullis_core::review::CalloutResult;
use portcullis_core::{Gateway, fault};
use portcullis_filter_config::{PeerSource, names};

use crate::activity_reports::ActivityReports;
use crate::agent;
use crate::host::{LocalState, Reviews, StreamHost};
use crate::limit_reports::LimitReports;
use crate::long_streams::{self, LongStream};
use crate::memory::{self, uptime};
use crate::metrics::Metrics;
use crate::timer::{ConfigWaker, Waker};

/// The HTTP filter of a listener: maps Envoy's hooks to [`Exchange`].
pub(crate) struct Filter {
    gateway: Gateway,
    metrics: Metrics,
    reviews: Reviews,
    reports: ActivityReports,
    limits: LimitReports,
    _turns: TurnPlace<ConfigWaker>,
}

/// The state of a stream between its hooks.
#[derive(Default)]
pub(crate) struct StreamState {
    exchange: Exchange<LongStream>,
    pub(crate) local: LocalState,
}

impl FilterConfig for Filter {
    type Route = RouteConfig<LongStream>;
    type Stream = StreamState;

    fn new(name: &[u8], body: &[u8], handle: &mut ConfigHandle) -> Option<Self> {
        if name != names::HTTP_FILTER.as_bytes() {
            log::error("portcullis: the module has no filter of this name");
            return None;
        }
        fault::strike_if_named("config", body);
        let sources = [PeerSource::Validator, PeerSource::ForwardedClientCert, PeerSource::Connection];
        let gateway = Gateway::load(body, &sources).map_err(|error| log::error(&error.to_string())).ok()?;
        let metrics = Metrics::new(handle)?;
        let reviews = Reviews::new(Waker(handle.scheduler()), gateway.via().to_owned());
        let reports = ActivityReports::new(gateway.activity(), || handle.scheduler());
        let limits = LimitReports::new(gateway.global_limits(), || handle.scheduler());
        let turns = long_streams::join_turns(Waker(handle.scheduler()));
        agent::listen();
        Some(Filter { gateway, metrics, reviews, reports, limits, _turns: turns })
    }

    // Envoy up to 1.39 and from 1.40 on carry the name in different fields; one filter needs none.
    fn new_route(_name: &[u8], body: &[u8]) -> Option<Self::Route> {
        fault::strike_if_named("route", body);
        let loaded = RouteConfig::load(body, &memory::state()?, &long_streams::STREAMS, &memory::CLUSTERS);
        let (route, update) = loaded.map_err(|error| log::error(&error.to_string())).ok()?;
        long_streams::apply_if_used(update);
        Some(route)
    }

    fn request_headers(
        &self,
        route: Option<&Self::Route>,
        state: &mut StreamState,
        stream: &mut FilterHandle,
    ) -> HeadersStatus {
        self.metrics.flusher.on_stream(&mut self.metrics.sink(stream));
        long_streams::end_loads(stream);
        if let Some(route) = route {
            stream.join(route.stream_group());
        }
        let StreamState { exchange, local } = state;
        headers_status(exchange.request_headers(&self.gateway, route, &mut self.host(local, stream)))
    }

    fn resumed(&self, route: Option<&Self::Route>, state: &mut StreamState, stream: &mut FilterHandle) {
        let StreamState { exchange, local } = state;
        exchange.wake(&self.gateway, route, &mut self.host(local, stream));
    }

    fn on_main_thread(&self, main: &mut MainThread) {
        long_streams::begin_turn();
        self.reviews.send(uptime(Instant::now()), |cluster, headers, body, timeout| {
            main.callout(cluster, headers, body, timeout)
        });
        self.reports.send(main);
        self.limits.send(main);
        if let Some(is_degraded) = self.limits.news_of_degradation() {
            self.metrics.show_degraded(is_degraded, main);
        }
        fault::strike_once("metrics");
        let mut sink = main.takes_metrics().then(|| self.metrics.sink(main));
        self.metrics.flusher.on_main_thread(sink.as_mut(), memory::forget_old);
    }

    fn callout_done(&self, id: CalloutId, response: &CalloutResponse<'_>) {
        if self.reports.done(id, response) || self.limits.done(id, response) {
            return;
        }
        let result = CalloutResult::from_response(response.is_given_up, response.status, &response.chunks);
        self.reviews.done(id, &result, uptime(Instant::now()));
        self.metrics.flusher.changed();
    }

    fn response_headers(&self, state: &mut StreamState, stream: &mut FilterHandle) -> HeadersStatus {
        let StreamState { exchange, local } = state;
        headers_status(exchange.response_headers(&mut self.host(local, stream)))
    }

    fn response_ended(&self, state: &mut StreamState, stream: &mut FilterHandle) {
        let StreamState { exchange, local } = state;
        exchange.response_ended(&mut self.host(local, stream));
    }

    fn request_body(&self, state: &mut StreamState, stream: &mut FilterHandle) -> BodyStatus {
        let StreamState { exchange, local } = state;
        if exchange.follows_body() {
            exchange.follow_body(&mut self.host(local, stream));
        }
        match exchange.request_body() {
            Next::Continue => BodyStatus::Continue,
            Next::Pause | Next::Stop => BodyStatus::Hold,
        }
    }

    fn request_trailers(
        &self,
        route: Option<&Self::Route>,
        state: &mut StreamState,
        stream: &mut FilterHandle,
    ) -> bool {
        let StreamState { exchange, local } = state;
        exchange.request_trailers(&self.gateway, route, &mut self.host(local, stream)) == Next::Continue
    }

    fn stream_complete(&self, state: &mut StreamState, stream: &mut FilterHandle) {
        let StreamState { exchange, local } = state;
        exchange.complete(&mut self.host(local, stream));
        self.metrics.flusher.on_stream(&mut self.metrics.sink(stream));
    }

    fn fail_closed(&self, state: &mut StreamState, stream: &mut FilterHandle) {
        let StreamState { exchange, local } = state;
        exchange.fail_closed(&mut self.host(local, stream));
    }
}

impl Filter {
    fn host<'a>(&'a self, local: &'a mut LocalState, stream: &'a mut FilterHandle) -> StreamHost<'a> {
        StreamHost { metrics: &self.metrics, reviews: &self.reviews, local, stream }
    }
}

fn headers_status(next: Next) -> HeadersStatus {
    match next {
        Next::Continue => HeadersStatus::Continue,
        Next::Pause => HeadersStatus::Wait,
        Next::Stop => HeadersStatus::StopIteration,
    }
}

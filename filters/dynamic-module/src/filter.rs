use std::sync::Arc;

use envoy_abi::http::{
    CalloutId, CalloutResponse, ConfigHandle, Counter, FilterConfig, FilterHandle, HeaderMap, HeadersStatus, MainThread,
};
use envoy_abi::log;
use portcullis_core::limit::Place;
use portcullis_core::review::{Review, Settled};
use portcullis_core::{Cluster, Decision, Gateway, Peer, Refusal, RequestFacts, hygiene};
use portcullis_filter_config as config;
use portcullis_filter_config::names;
use rustls_pki_types::UnixTime;
use serde::de::DeserializeOwned;

use crate::apply::{apply, refuse};
use crate::fault;
use crate::memory::ProcessMemory;
use crate::reviews::{Pending, Reviews};

/// How often a request may wait for reviews: for its tokens, then for its impersonation, and once more for each if the
/// configuration changes meanwhile.
const ROUNDS: u8 = 5;

/// The HTTP filter in a listener.
pub(crate) struct Filter {
    gateway: Gateway,
    refused: Counter,
    reviews: Reviews,
}

/// What is kept of a stream between its hooks.
#[derive(Default)]
pub(crate) struct Kept {
    owns_unauthorized: bool,
    /// Given back when Envoy destroys the stream's filter, which it does exactly once, however the stream ends.
    place: Option<Place>,
    waiting: Option<Arc<Pending>>,
    rounds: u8,
}

impl FilterConfig for Filter {
    type Route = Cluster;
    type Stream = Kept;

    fn new(name: &[u8], body: &[u8], handle: &mut ConfigHandle) -> Option<Self> {
        if name != names::HTTP_FILTER.as_bytes() {
            log::error("portcullis: the module has no filter of this name");
            return None;
        }
        let config = read::<config::FilterConfig>(body)?;
        let gateway = Gateway::compile(&config).map_err(|error| log::error(&format!("portcullis: {error}"))).ok()?;
        let refused = handle.counter("portcullis_refused_total", &["cause"])?;
        let reviews = Reviews::new(handle.scheduler(), gateway.via().to_owned());
        Some(Filter { gateway, refused, reviews })
    }

    // Envoy up to 1.39 and from 1.40 on carry the name in different fields; one filter needs none.
    fn new_route(_name: &[u8], body: &[u8]) -> Option<Cluster> {
        let config = read::<config::ClusterConfig>(body)?;
        Cluster::compile(&config, &ProcessMemory::new()?)
            .map_err(|error| log::error(&format!("portcullis: {}: {error}", config.identity)))
            .ok()
    }

    fn request_headers(&self, route: Option<&Cluster>, kept: &mut Kept, stream: &mut FilterHandle) -> HeadersStatus {
        self.judge(route, Settled::default(), kept, stream)
    }

    fn resumed(&self, route: Option<&Cluster>, kept: &mut Kept, stream: &mut FilterHandle) {
        let Some(settled) = kept.waiting.as_ref().and_then(|pending| pending.settled()) else { return };
        kept.waiting = None;
        if self.judge(route, settled, kept, stream) == HeadersStatus::Continue {
            stream.continue_decoding();
        }
    }

    fn on_main_thread(&self, main: &mut MainThread) {
        self.reviews.send(main);
    }

    fn callout_done(&self, id: CalloutId, response: &CalloutResponse<'_>) {
        self.reviews.done(id, response);
    }

    fn response_headers(&self, kept: &mut Kept, stream: &mut FilterHandle) -> HeadersStatus {
        if kept.owns_unauthorized && stream.header(HeaderMap::Response, b":status") == Some(b"401") {
            return self.answer(&Refusal::gateway_credential(), stream);
        }
        HeadersStatus::Continue
    }

    fn request_trailers(&self, stream: &mut FilterHandle) {
        let headers = stream.headers(HeaderMap::RequestTrailers);
        let lifted: Vec<Box<[u8]>> =
            headers.iter().map(|(name, _)| name).filter(|name| hygiene::is_reserved(name)).map(Into::into).collect();
        for name in &lifted {
            stream.remove_header(HeaderMap::RequestTrailers, name);
        }
    }

    fn fail_closed(&self, stream: &mut FilterHandle) {
        self.answer(&Refusal::internal(), stream);
    }
}

impl Filter {
    /// Judges a request, the first time or with answers that it waited for.
    fn judge(
        &self,
        route: Option<&Cluster>,
        settled: Settled,
        kept: &mut Kept,
        stream: &mut FilterHandle,
    ) -> HeadersStatus {
        let headers = stream.headers(HeaderMap::Request);
        let scan = self.gateway.scan(headers.iter());
        let decision = match route {
            Some(cluster) => {
                fault::maybe("decide", || stream.headers(HeaderMap::Request));
                let (peer, now) = (peer_of(stream), UnixTime::now());
                self.gateway.decide(cluster, &RequestFacts { scan: &scan, peer, settled: &settled, now })
            }
            None => Decision::Refuse(Refusal::not_configured()),
        };
        // What is borrowed from Envoy ends here: the first setter invalidates it.
        let (taken_out, has_connection) = (scan.taken_out(), scan.has_connection);

        let decision = match decision {
            // The headers stay as they are until they are judged again; nothing goes upstream meanwhile.
            Decision::Review(reviews) => match self.wait(reviews, settled, kept, stream) {
                Ok(()) => return HeadersStatus::Wait,
                Err(refusal) => Decision::Refuse(refusal),
            },
            decided => decided,
        };
        for name in taken_out.names() {
            stream.remove_header(HeaderMap::Request, name);
        }
        let refusal = match decision {
            Decision::Forward(mut forward) => match apply(&forward, has_connection, stream) {
                Ok(()) => {
                    kept.place = forward.place.take();
                    kept.owns_unauthorized = forward.owns_unauthorized;
                    fault::maybe("decided", || stream.headers(HeaderMap::Request));
                    return HeadersStatus::Continue;
                }
                Err(refusal) => refusal,
            },
            Decision::Refuse(refusal) => refusal,
            Decision::Review(_) => Refusal::internal(),
        };
        self.answer(&refusal, stream)
    }

    fn wait(
        &self,
        reviews: Vec<Review>,
        settled: Settled,
        kept: &mut Kept,
        stream: &mut FilterHandle,
    ) -> Result<(), Refusal> {
        kept.rounds = kept.rounds.saturating_add(1);
        if kept.rounds > ROUNDS {
            return Err(Refusal::review_failed());
        }
        let pending = Pending::new(stream.scheduler(), reviews.len(), settled);
        self.reviews.ask(reviews, &pending)?;
        kept.waiting = Some(pending);
        Ok(())
    }

    fn answer(&self, refusal: &Refusal, stream: &mut FilterHandle) -> HeadersStatus {
        stream.increment(self.refused, &[refusal.cause.as_str()]);
        refuse(refusal, stream)
    }
}

/// A certificate without its chain is an error, never nobody.
fn peer_of(stream: &FilterHandle) -> Peer<'_> {
    match stream.filter_state(names::CLIENT_CHAIN) {
        Some(chain) => Peer::Chain(chain),
        None if stream.presented_certificate() => Peer::Unreadable,
        None => Peer::None,
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body)
        .map_err(|error| log::error(&format!("portcullis: the configuration does not parse: {error}")))
        .ok()
}

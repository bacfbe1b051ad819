use envoy_abi::http::{ConfigHandle, Counter, FilterConfig, FilterHandle, HeaderMap, HeadersStatus};
use envoy_abi::log;
use portcullis_core::{Cluster, Decision, Gateway, Peer, Refusal, RequestFacts, hygiene};
use portcullis_filter_config as config;
use portcullis_filter_config::names;
use rustls_pki_types::UnixTime;
use serde::de::DeserializeOwned;

use crate::apply::{apply, refuse};
use crate::{caches, fault};

/// The HTTP filter in a listener.
pub(crate) struct Filter {
    gateway: Gateway,
    refused: Counter,
}

/// What is kept of a stream between its hooks.
#[derive(Default)]
pub(crate) struct Kept {
    owns_unauthorized: bool,
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
        Some(Filter { gateway, refused })
    }

    // Envoy up to 1.39 and from 1.40 on carry the name in different fields; one filter needs none.
    fn new_route(_name: &[u8], body: &[u8]) -> Option<Cluster> {
        let config = read::<config::ClusterConfig>(body)?;
        Cluster::compile(&config, caches::certificates_of)
            .map_err(|error| log::error(&format!("portcullis: {}: {error}", config.identity)))
            .ok()
    }

    fn request_headers(&self, route: Option<&Cluster>, kept: &mut Kept, stream: &mut FilterHandle) -> HeadersStatus {
        let headers = stream.headers(HeaderMap::Request);
        let scan = self.gateway.scan(headers.iter());
        let decision = match route {
            Some(cluster) => {
                fault::maybe("decide", &headers);
                let request = RequestFacts { scan: &scan, peer: peer_of(stream), now: UnixTime::now() };
                self.gateway.decide(cluster, &request)
            }
            None => Decision::Refuse(Refusal::not_configured()),
        };
        // What is borrowed from Envoy ends here: the first setter invalidates it.
        let lifted: Vec<Box<[u8]>> = scan.lifted.iter().map(|name| (*name).into()).collect();
        let (has_authorization, has_connection) = (scan.authorization.is_some(), scan.has_connection);

        for name in &lifted {
            stream.remove_header(HeaderMap::Request, name);
        }
        if has_authorization {
            stream.remove_header(HeaderMap::Request, b"authorization");
        }
        let refusal = match decision {
            Decision::Refuse(refusal) => refusal,
            Decision::Forward(forward) => match apply(&forward, has_connection, stream) {
                Ok(()) => {
                    kept.owns_unauthorized = forward.owns_unauthorized;
                    fault::maybe("decided", &stream.headers(HeaderMap::Request));
                    return HeadersStatus::Continue;
                }
                Err(refusal) => refusal,
            },
        };
        self.answer(&refusal, stream)
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
    fn answer(&self, refusal: &Refusal, stream: &mut FilterHandle) -> HeadersStatus {
        let status = refuse(refusal, stream);
        stream.increment(self.refused, &[refusal.cause.as_str()]);
        status
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

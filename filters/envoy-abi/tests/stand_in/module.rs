//! A filter that uses everything of the ABI; the request's path says how.

use std::sync::Mutex;

use envoy_abi::cert_validator::{CertValidator, HandshakeHandle};
use envoy_abi::http::{
    BodyStatus, CalloutId, CalloutResponse, ChildSpan, ConfigHandle, ConfigScheduler, Counter, FilterConfig,
    FilterHandle, Gauge, HeaderMap, HeadersStatus, Histogram, LocalReply, MainThread, MetricSink, StreamScheduler,
};

pub(crate) struct Module {
    main: ConfigScheduler,
    metrics: (Counter, Gauge, Histogram),
    /// Streams that wait, as others of the process know them.
    pub(crate) waiting: Mutex<Vec<StreamScheduler>>,
    pub(crate) answers: Mutex<Vec<Answer>>,
}

/// Id, status, body, and whether it was given up.
type Answer = (CalloutId, u16, Vec<u8>, bool);

#[derive(Default)]
pub(crate) struct Kept {
    path: String,
    is_completed: bool,
    span: Option<ChildSpan>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        assert!(self.is_completed || self.path.is_empty(), "{} was not completed", self.path);
    }
}

/// A header with which the panics of the tests come.
pub(crate) fn is_asked_to_panic(stream: &FilterHandle, place: &str) -> bool {
    stream.header(HeaderMap::Request, b"panics") == Some(place.as_bytes())
}

/// The number of a group in a header.
fn group(stream: &FilterHandle, header: &[u8]) -> Option<u64> {
    stream.header(HeaderMap::Request, header).and_then(|number| std::str::from_utf8(number).ok()?.parse().ok())
}

fn maybe_panic(stream: &FilterHandle, place: &str) {
    assert!(!is_asked_to_panic(stream, place), "a panic on demand");
}

impl FilterConfig for Module {
    type Route = String;
    type Stream = Kept;

    fn new(name: &[u8], config: &[u8], handle: &mut ConfigHandle) -> Option<Self> {
        if config == b"refused" {
            return None;
        }
        assert!(config != b"panics" && !name.is_empty());
        let metrics = (handle.counter("c", &["a", "b"])?, handle.gauge("g", &[])?, handle.histogram("h")?);
        Some(Module { main: handle.scheduler(), metrics, waiting: Mutex::default(), answers: Mutex::default() })
    }

    fn new_route(name: &[u8], config: &[u8]) -> Option<String> {
        Some(format!("{} {}", String::from_utf8_lossy(name), String::from_utf8_lossy(config)))
    }

    fn request_headers(&self, route: Option<&String>, kept: &mut Kept, stream: &mut FilterHandle) -> HeadersStatus {
        assert_eq!(route.map(String::as_str), Some("filter route"));
        if let Some(group) = group(stream, b"joins") {
            stream.join(group);
        }
        if let Some(meant) = group(stream, b"wakes") {
            stream.wake_streams(|group| group == meant);
        }
        maybe_panic(stream, "request");
        let Some(headers) = stream.headers(HeaderMap::Request) else {
            stream.reset("unreadable".to_owned());
            return HeadersStatus::StopIteration;
        };
        let all: Vec<(&[u8], &[u8])> = headers.iter().collect();
        let path = all.iter().find(|(name, _)| *name == b":path").map(|(_, value)| *value);
        kept.path = String::from_utf8_lossy(path.unwrap_or_default()).into_owned();
        let names: Vec<Vec<u8>> = all.iter().map(|(name, _)| name.to_vec()).collect();
        let _ = self.metrics.2;
        stream.record(self.metrics.2, names.len() as u64);
        match kept.path.as_str() {
            "/waits" => {
                kept.span = stream.span().and_then(|mut span| span.start_child("wait"));
                if let Some(span) = &mut kept.span {
                    let (trace, id) = span.ids().unwrap();
                    span.set_tag("ids", &format!("{trace} {id}"));
                }
                if let Some(mut span) = stream.span() {
                    span.set_name("waits");
                    span.set_tag("a", "b");
                }
                self.waiting.lock().unwrap().push(stream.scheduler());
                self.main.wake();
                return HeadersStatus::Wait;
            }
            "/refused" => {
                let headers = vec![("content-type", "text/plain".to_owned()), ("retry-after", "1".to_owned())];
                let (body, details) = ("no".to_owned(), "refused".to_owned());
                stream.send_response(LocalReply { status: 403, headers, body, details });
                // The first answer stands.
                stream.continue_decoding();
                return HeadersStatus::StopIteration;
            }
            _ => {}
        }
        for name in names.iter().filter(|name| name.starts_with(b"x-")) {
            assert!(stream.remove_header(HeaderMap::Request, name));
            assert_eq!(stream.header(HeaderMap::Request, name), None);
        }
        assert!(
            stream.set_header(b"user", b"alice")
                && stream.add_header(b"group", b"a")
                && stream.add_header(b"group", b"")
        );
        assert!(stream.set_filter_state("destination", b"somewhere"));
        assert_eq!(stream.filter_state("destination"), Some(&b"somewhere"[..]));
        assert!(stream.presented_certificate() && stream.certificate_digest().is_some());
        stream.clear_route_cache();
        HeadersStatus::Continue
    }

    fn resumed(&self, route: Option<&String>, _kept: &mut Kept, stream: &mut FilterHandle) {
        assert!(route.is_some());
        maybe_panic(stream, "resumed");
        match stream.header(HeaderMap::Request, b"then") {
            Some(b"reset") => stream.reset("gone".to_owned()),
            Some(b"finish") => stream.finish(),
            Some(b"drain") => stream.drain_connection(),
            _ => {
                assert!(stream.set_header(b"user", b"bob"));
                stream.continue_decoding();
            }
        }
    }

    fn on_main_thread(&self, main: &mut MainThread) {
        let _ = main.takes_metrics() && main.add(self.metrics.0, &["x", "y"], 1) && main.set(self.metrics.1, &[], 1);
        let headers = [(":method", "POST"), (":path", "/reviews")];
        assert!(main.callout("servers", &headers, b"a question", 5_000).is_some());
    }

    fn callout_done(&self, id: CalloutId, response: &CalloutResponse<'_>) {
        self.answers.lock().unwrap().push((id, response.status, response.chunks.concat(), response.is_given_up));
        assert!(response.chunks.concat() != b"panics");
        for scheduler in self.waiting.lock().unwrap().drain(..) {
            scheduler.wake();
        }
    }

    fn request_body(&self, kept: &mut Kept, _stream: &mut FilterHandle) -> BodyStatus {
        assert!(kept.path != "/body-panics");
        if kept.path == "/held" { BodyStatus::Hold } else { BodyStatus::Continue }
    }

    fn request_trailers(&self, _route: Option<&String>, _kept: &mut Kept, stream: &mut FilterHandle) -> bool {
        let Some(trailers) = stream.headers(HeaderMap::RequestTrailers) else { return false };
        let names: Vec<Vec<u8>> = trailers.iter().map(|(name, _)| name.to_vec()).collect();
        names.iter().all(|name| stream.remove_header(HeaderMap::RequestTrailers, name))
    }

    fn response_headers(&self, _kept: &mut Kept, stream: &mut FilterHandle) -> HeadersStatus {
        maybe_panic(stream, "response");
        assert_eq!(stream.endpoint_metadata("envoy.lb", "server"), None);
        HeadersStatus::Continue
    }

    fn response_ended(&self, _: &mut Self::Stream, _: &mut FilterHandle) {}

    fn stream_complete(&self, kept: &mut Kept, stream: &mut FilterHandle) {
        kept.is_completed = true;
        maybe_panic(stream, "complete");
        assert_eq!(stream.code_details(), None, "the stand-in exports what Envoy 1.38 does");
        assert!(stream.upstream_address().is_some() && stream.add(self.metrics.0, &["one", "two"], 1));
        stream.set_metadata("log", [("members", &*kept.path)].into_iter());
    }

    fn fail_closed(&self, _kept: &mut Kept, stream: &mut FilterHandle) {
        assert!(!is_asked_to_panic(stream, "twice"), "a second panic");
        let (headers, body, details) = (Vec::new(), "internal".to_owned(), "panic".to_owned());
        stream.send_response(LocalReply { status: 500, headers, body, details });
    }
}

/// A validator that lets through what begins with a zero.
pub(crate) struct Validator(Vec<u8>);

impl CertValidator for Validator {
    fn new(_name: &[u8], config: &[u8]) -> Option<Self> {
        (!config.is_empty()).then(|| Validator(config.to_vec()))
    }

    fn verify(&self, chain: &[&[u8]], handshake: &mut HandshakeHandle) -> bool {
        assert!(chain.first() != Some(&&b"panics"[..]));
        // Before 1.39, and here, it is another connection's.
        assert!(!handshake.set_filter_state("chain", &chain.concat()));
        chain.first().is_some_and(|leaf| leaf.first() == Some(&0))
    }

    fn digest(&self) -> &[u8] {
        &self.0
    }
}

use envoy_abi::http::{FilterHandle, HeaderMap, HeadersStatus, LocalReply};
use portcullis_core::observe::Shown;
use portcullis_core::{Forward, Refusal};
use portcullis_filter_config::names;

/// Writes a decision into the request and opens its route.
///
/// # Errors
/// If Envoy refuses any of it, the request must not go on: it could carry another identity than the one decided.
pub(crate) fn apply(forward: &Forward<'_>, has_connection: bool, stream: &mut FilterHandle) -> Result<(), Refusal> {
    let mut is_written = true;
    if forward.is_upgrade {
        is_written &= stream.set_header(b"connection", b"Upgrade");
    } else if has_connection {
        is_written &= stream.remove_header(HeaderMap::Request, b"connection");
    }
    match forward.subprotocols.as_deref() {
        Some(b"") => is_written &= stream.remove_header(HeaderMap::Request, b"sec-websocket-protocol"),
        Some(kept) => is_written &= stream.set_header(b"sec-websocket-protocol", kept),
        None => {}
    }
    let lines = forward.user.iter().flat_map(|user| user.lines()).chain(&forward.attribution);
    for (name, value) in lines {
        is_written &= stream.add_header(name.as_bytes(), value.as_bytes());
    }
    if let Some(via) = forward.via {
        is_written &= stream.add_header(b"via", via.as_bytes());
    }
    if !is_written || !stream.set_filter_state(names::DESTINATION, forward.destination.as_bytes()) {
        return Err(Refusal::internal());
    }
    stream.clear_route_cache();
    Ok(())
}

/// Writes what a request asks for, for somebody's own routes and logs. False if Envoy refuses any of it: those routes would
/// take the request for another one.
pub(crate) fn show(shown: &Shown, stream: &mut FilterHandle) -> bool {
    shown.fields().fold(true, |is_written, (field, value)| {
        stream.set_metadata(names::request::METADATA, field.key, value);
        stream.set_filter_state(field.state, value.as_bytes()) && is_written
    })
}

/// Answers a stream with a `Status`.
pub(crate) fn refuse(refusal: &Refusal, stream: &mut FilterHandle) -> HeadersStatus {
    let details = format!("{}{}", names::REPLY_DETAILS_PREFIX, refusal.cause.as_str());
    // To a gRPC request Envoy answers 200 with a grpc-status, and for a `Status` body that is 0: success. No kube-apiserver
    // speaks gRPC to its clients.
    let is_grpc = |content_type: &[u8]| content_type.starts_with(b"application/grpc");
    if stream.header(HeaderMap::Request, b"content-type").is_some_and(is_grpc) {
        stream.reset(details);
        return HeadersStatus::StopIteration;
    }
    let mut headers =
        vec![("content-type", "application/json".to_owned()), ("cache-control", "no-cache, private".to_owned())];
    if let Some(seconds) = refusal.retry_after {
        headers.push(("retry-after", seconds.to_string()));
    }
    stream.send_response(LocalReply { status: refusal.code, headers, body: refusal.body(), details });
    HeadersStatus::StopIteration
}

use portcullis_core::observe::Shown;
use portcullis_core::{Forward, Refusal};
use portcullis_filter_config::names;

use crate::host::{Host, Map, Reply};

/// Writes a decision into the request and opens its route.
///
/// # Errors
/// If Envoy refuses any of it, the request must not go on: it could carry another identity than the one decided.
pub(crate) fn apply(forward: &Forward<'_>, has_connection: bool, host: &impl Host) -> Result<(), Refusal> {
    let mut is_written = true;
    if forward.is_upgrade {
        is_written &= host.set_header("connection", b"Upgrade");
    } else if has_connection {
        is_written &= host.remove_header(Map::Request, b"connection");
    }
    match forward.subprotocols.as_deref() {
        Some(b"") => is_written &= host.remove_header(Map::Request, b"sec-websocket-protocol"),
        Some(kept) => is_written &= host.set_header("sec-websocket-protocol", kept),
        None => {}
    }
    let lines = forward.user.iter().flat_map(|user| user.lines()).chain(&forward.attribution);
    for (name, value) in lines {
        is_written &= host.add_header(name, value.as_bytes());
    }
    if let Some(via) = forward.via {
        is_written &= host.add_header("via", via.as_bytes());
    }
    is_written &= host.set_filter_state(names::DESTINATION, forward.destination.as_bytes());
    if is_written && host.clear_route_cache() { Ok(()) } else { Err(Refusal::internal()) }
}

/// Writes what a request asks for, for somebody's own routes and logs. False if Envoy refuses any of it: those routes would
/// take the request for another one.
pub(crate) fn show(shown: &Shown, host: &impl Host) -> bool {
    shown.fields().all(|(field, value)| host.set_filter_state(field.state, value.as_bytes()))
}

/// Answers a stream with a `Status`.
pub(crate) fn refuse(refusal: &Refusal, host: &impl Host) {
    // To a gRPC request Envoy answers 200 with a grpc-status, and for a `Status` body that is 0: success. No kube-apiserver
    // speaks gRPC to its clients.
    let is_grpc = host.header(Map::Request, "content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"));
    if is_grpc {
        host.close_request();
        return;
    }
    let seconds = refusal.retry_after.map(|seconds| seconds.to_string());
    let mut headers = vec![("content-type", "application/json"), ("cache-control", "no-cache, private")];
    headers.extend(seconds.as_deref().map(|seconds| ("retry-after", seconds)));
    let details = format!("{}{}", names::REPLY_DETAILS_PREFIX, refusal.cause.as_str());
    let body = refusal.body();
    let reply = Reply { status: refusal.code, details: &details, headers: &headers, body: body.as_bytes() };
    if !host.reply(&reply) {
        host.close_request();
    }
}

//! Checks of a message that do not depend on the client.

use crate::cluster::Cluster;
use crate::credential::bearer_token;
use crate::header_scan::HeaderScan;
use crate::refusal::Refusal;

/// Checks that do not depend on the client.
pub(super) fn check_message(scan: &HeaderScan<'_>, cluster: &Cluster) -> Result<(), Refusal> {
    if cluster.deny_all_requests {
        return Err(Refusal::denied());
    }
    if scan.is_loop {
        return Err(Refusal::loop_detected());
    }
    if !cluster.authorities.accept(scan.authority) {
        return Err(Refusal::misdirected());
    }
    if scan.authorization_lines > 1 {
        return Err(Refusal::bad_request("the request has more than one Authorization header"));
    }
    if let Some(bad) = scan.bad_connection {
        return Err(Refusal::bad_request(bad.to_string()));
    }
    if scan.is_upgrade && scan.has_body {
        return Err(Refusal::bad_request("an upgrade has no body"));
    }
    // If identity headers are forwarded, a request without them would have another identity.
    if scan.connection_lists_identity && cluster.identity.passes() {
        return Err(Refusal::bad_request("the Connection header lists a header with the identity of the client"));
    }
    check_target(scan)?;
    // Folded instead of searched, so that several bytes are looked at in one instruction.
    if !scan.path.iter().fold(true, |graphic, byte| graphic & byte.is_ascii_graphic()) {
        return Err(Refusal::bad_request("the path has a byte that has to be percent-encoded"));
    }
    Ok(())
}

/// The longest method. Those of HTTP's registry have up to 17 letters.
const MAX_METHOD: usize = 64;

pub(super) fn check_target(scan: &HeaderScan<'_>) -> Result<(), Refusal> {
    if scan.method == b"CONNECT" || !scan.path.starts_with(b"/") {
        return Err(Refusal::bad_request("the request's target is not a path"));
    }
    if scan.method.len() > MAX_METHOD {
        return Err(Refusal::bad_request("the request's method is too long"));
    }
    Ok(())
}

/// Whether there is a bearer token in `Authorization` and another one among the subprotocols.
pub(super) fn presents_two_tokens(scan: &HeaderScan<'_>) -> bool {
    let is_bearer = |authorization| !matches!(bearer_token(authorization), Ok(None));
    scan.is_websocket && scan.token_subprotocol && scan.authorization.is_some_and(is_bearer)
}

use serde_json::json;

/// Message of the answer to a client that asks for a name without a cluster.
pub const UNKNOWN_NAME: &str =
    "no cluster is served under this name; the name of the TLS handshake (SNI) decides, not the Host header";

/// Message of the answer to plain HTTP at a Gateway.
pub(crate) const PLAIN_HTTP: &str = "nothing is served over plain HTTP";

/// Message of the answer to a request of a route without a backend that can be used. Clients read it, who need not be able to read the route.
pub(crate) const UNRESOLVED: &str = "the route's backends cannot be used; its conditions have the reason";

/// A Kubernetes `Status` of a failure. `code` may be an access-log command (`%RESPONSE_CODE%`), which a format
/// substitutes; hence text and not a `Value`.
fn status(message: &str, reason: &str, details: &str, code: &str) -> String {
    let (message, reason) = (json!(message), json!(reason));
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":{message},"reason":{reason}{details},"code":{code}}}"#
    ) + "\n"
}

/// The body of a direct response.
pub(crate) fn fixed(message: &str, reason: &str, code: u16) -> String {
    status(message, reason, "", &code.to_string())
}

/// The body of a local reply, with the response's own code. Every `%` of the message is literal.
pub(crate) fn formatted(message: &str, reason: &str) -> String {
    status(&message.replace('%', "%%"), reason, "", "%RESPONSE_CODE%")
}

/// As [`formatted`], for a reply with `Retry-After`.
pub(crate) fn formatted_retry(message: &str, reason: &str, seconds: u32) -> String {
    let details = format!(r#","details":{{"retryAfterSeconds":{seconds}}}"#);
    status(&message.replace('%', "%%"), reason, &details, "%RESPONSE_CODE%")
}

//! Every answer that the filter gives itself, as a Kubernetes `Status` (apimachinery, `meta/v1`).

mod cause;

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use portcullis_filter_config::{AccessScope, names};

use crate::request_info::RequestInfo;
use crate::resource_attributes::{AccessAttributes, ResourceAttributes};
pub use cause::Cause;

/// A request that ends here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// The `Status` reason, a `metav1.StatusReason` where there is one.
    pub reason: &'static str,
    /// For a person; holds nothing of other clients and no secret.
    pub message: Cow<'static, str>,
    /// Seconds for `Retry-After`. client-go repeats any method on it, so only where the upstream certainly saw nothing.
    pub retry_after: Option<u32>,
    /// Of a 403, what was forbidden.
    pub object: Option<Box<ForbiddenObject>>,
    /// Word for access logs and metrics, of a closed set.
    pub cause: Cause,
}

/// The object of a 403, for the `details`: a resource in the place of a kind, as kube-apiserver does. Empty for a plain path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForbiddenObject {
    name: String,
    group: String,
    resource: String,
}

impl ForbiddenObject {
    fn of(info: &RequestInfo<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ForbiddenObject { name: text(&info.name), group: text(info.api_group), resource: text(info.resource) }
    }
}

/// Different values of `Retry-After`, from 1 on.
const RETRY_SPREAD: u32 = 4;

impl Refusal {
    fn new(code: u16, reason: &'static str, cause: Cause, message: impl Into<Cow<'static, str>>) -> Self {
        Refusal { code, reason, message: message.into(), retry_after: None, object: None, cause }
    }

    /// 400: what no honest client sends.
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Refusal::new(400, "BadRequest", Cause::BadRequest, message)
    }

    /// 401, with kube-apiserver's own message: a presented credential failed; the answer does not say which.
    pub fn unauthorized() -> Self {
        Refusal::new(401, "Unauthorized", Cause::Unauthorized, "Unauthorized")
    }

    /// 403: any `Impersonate-*`. Dropping it would run the command with more rights than asked for.
    pub fn impersonation() -> Self {
        let message = "impersonation through this gateway is not supported: send the request without --as, --as-group, \
                       --as-uid and Impersonate-* headers";
        Refusal::new(403, "Forbidden", Cause::Impersonation, message)
    }

    /// 403: an `Impersonate-*` header that this gateway does not know, and so cannot judge.
    pub fn unknown_impersonation() -> Self {
        Refusal::new(403, "Forbidden", Cause::Impersonation, "the request has an unknown Impersonate-* header")
    }

    /// 403: an impersonated extra that only the gateway may write.
    pub fn reserved_extra() -> Self {
        let message = "extra keys that start with portcullis.dev/ are the gateway's own";
        Refusal::new(403, "Forbidden", Cause::Impersonation, message)
    }

    /// 403, in kube-apiserver's words. `note`: behind them, or empty.
    pub fn may_not_impersonate(client: &str, denied: &AccessAttributes<'_>, note: &str) -> Self {
        let attributes = match denied {
            AccessAttributes::Resource(attributes) => &**attributes,
            AccessAttributes::Path { verb, path } => {
                let message = format!("forbidden: User \"{client}\" cannot {verb} path \"{path}\"{note}");
                return Refusal::new(403, "Forbidden", Cause::Impersonation, message);
            }
        };
        let ResourceAttributes { verb, group, resource, subresource, namespace, name, .. } = attributes;
        let object =
            ForbiddenObject { name: name.clone(), group: group.clone().into(), resource: resource.clone().into() };
        let dot = if group.is_empty() { "" } else { "." };
        let slash = if subresource.is_empty() { "" } else { "/" };
        let named = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let place = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{namespace}\"")
        };
        let message = format!(
            "{resource}{dot}{group}{named} is forbidden: User \"{client}\" cannot {verb} resource \
             \"{resource}{slash}{subresource}\" in API group \"{group}\" {place}{note}"
        );
        Refusal::new(403, "Forbidden", Cause::Impersonation, message).about(object)
    }

    /// 403: a user that no request may act as through this gateway.
    pub fn protected_user(name: &str) -> Self {
        let message = format!("no request may act as the user \"{name}\"");
        Refusal::new(403, "Forbidden", Cause::ProtectedIdentity, message)
    }

    /// 403: a group that no user of this gateway may be in.
    pub fn protected_group(name: &str) -> Self {
        let message = format!("no request may act as a member of the group \"{name}\"");
        Refusal::new(403, "Forbidden", Cause::ProtectedIdentity, message)
    }

    /// 403: the entry of this number, from 0, of an access list denies the request. `message` is the entry's own.
    pub fn denied_by_list(scope: AccessScope, entry: usize, message: &str, info: &RequestInfo<'_>) -> Self {
        let (scope, colon) = (scope.as_str(), if message.is_empty() { "" } else { ": " });
        let message = format!("entry {entry} of the {scope}'s deny list denies this request{colon}{message}");
        Refusal::new(403, "Forbidden", Cause::DeniedByList, message).about(ForbiddenObject::of(info))
    }

    /// 403: there is an allow list, and no entry of it lets the request in.
    pub fn not_let_in(scope: AccessScope, info: &RequestInfo<'_>) -> Self {
        let message = format!("no entry of the {}'s allow list lets this request in", scope.as_str());
        Refusal::new(403, "Forbidden", Cause::DeniedByList, message).about(ForbiddenObject::of(info))
    }

    /// 403: the dispatch policy of this number, from 0, denies the request. `message` is the policy's own.
    pub fn denied_by_policy(policy: usize, message: &str, info: &RequestInfo<'_>) -> Self {
        let colon = if message.is_empty() { "" } else { ": " };
        let message = format!("dispatch policy {policy} of the gateway denies this request{colon}{message}");
        Refusal::new(403, "Forbidden", Cause::DeniedByPolicy, message).about(ForbiddenObject::of(info))
    }

    /// 403: no dispatch policy.
    pub fn no_policy(info: &RequestInfo<'_>) -> Self {
        let message = "no dispatch policy of the gateway matches this request";
        Refusal::new(403, "Forbidden", Cause::NoPolicy, message).about(ForbiddenObject::of(info))
    }

    fn about(self, object: ForbiddenObject) -> Self {
        Refusal { object: Some(Box::new(object)), ..self }
    }

    /// 421: the name belongs to another cluster, or to none.
    pub fn misdirected() -> Self {
        let message = "this connection does not serve the requested host name; open a new one for it";
        Refusal::new(421, "MisdirectedRequest", Cause::Misdirected, message)
    }

    /// 500: the filter failed; nothing went upstream.
    pub fn internal() -> Self {
        Refusal::new(500, "InternalError", Cause::Internal, "the gateway failed to judge this request")
    }

    /// 503: a bearer token was presented, and this cluster has no reviewer.
    pub fn token_not_reviewed() -> Self {
        let message = "bearer tokens are not reviewed by this gateway; use a client certificate";
        Refusal::new(503, "ServiceUnavailable", Cause::Unchecked, message)
    }

    /// 503: the upstream did not answer a review. It saw nothing of the request, which may be repeated.
    pub fn review_failed() -> Self {
        let message = "the gateway could not have the request's credentials reviewed";
        Refusal { retry_after: Some(1), ..Refusal::new(503, "ServiceUnavailable", Cause::ReviewFailed, message) }
    }

    /// 429: too many reviews are under way.
    pub fn too_many_reviews() -> Self {
        let message = "the gateway is reviewing too many credentials at the moment";
        Refusal { retry_after: Some(1), ..Refusal::new(429, "TooManyRequests", Cause::Unchecked, message) }
    }

    /// 429: the cluster is closed by `DenyAllRequests`. Without Retry-After: clients should not hurry.
    pub fn denied() -> Self {
        let message = "the gateway denies all requests to this cluster at the moment";
        Refusal::new(429, "TooManyRequests", Cause::Denied, message)
    }

    /// 429: a limit of flow control. Events are dropped by their clients rather than repeated, so that they do not pile
    /// up where there is too much already.
    pub fn too_many_requests(resource: &[u8]) -> Self {
        let message = "too many requests of this kind at the moment; please try again later";
        let retry_after = (resource != b"events").then_some(1);
        Refusal { retry_after, ..Refusal::new(429, "TooManyRequests", Cause::FlowControl, message) }
    }

    /// 429: the fair queue of the request is full. With Retry-After as of [`Refusal::too_many_requests`].
    pub fn queue_full(resource: &[u8]) -> Self {
        let message = "too many requests of this flow wait at the moment; please try again later";
        Refusal { message: message.into(), cause: Cause::QueueFull, ..Refusal::too_many_requests(resource) }
    }

    /// 429: the request waited in a fair queue for too long. With Retry-After as of [`Refusal::too_many_requests`].
    pub fn queue_timeout(resource: &[u8]) -> Self {
        let message = "the request waited too long for its turn; please try again later";
        Refusal { message: message.into(), cause: Cause::QueueTimeout, ..Refusal::too_many_requests(resource) }
    }

    /// 503: a client certificate was presented, but its chain did not reach the filter.
    pub fn certificate_not_readable() -> Self {
        let message = "the gateway could not read the client certificate of this connection";
        Refusal::new(503, "ServiceUnavailable", Cause::Unchecked, message)
    }

    /// 503: the upstream answered 401 to the gateway's own credential. The client's was good, and a 401 would make it throw
    /// that away.
    pub fn gateway_credential() -> Self {
        let message = "gateway credential refused: the upstream does not accept the gateway's own credential";
        Refusal::new(503, "ServiceUnavailable", Cause::GatewayCredential, message)
    }

    /// 503: no configuration for this virtual host.
    pub fn not_configured() -> Self {
        let message = "the gateway has no configuration for this cluster yet";
        Refusal::new(503, "ServiceUnavailable", Cause::NotConfigured, message)
    }

    /// 508: the request came back.
    pub fn loop_detected() -> Self {
        Refusal::new(508, "LoopDetected", Cause::Loop, "the request has already been through this gateway")
    }

    /// Sets apart clients that are refused at the same time: client-go repeats a request after exactly as many seconds as `Retry-After`
    /// says, and those of all clients would come at once again. The fractions of the uptime are as good as chance here.
    pub(crate) fn spread(&mut self, uptime: Duration) {
        if let Some(seconds) = &mut self.retry_after {
            *seconds = seconds.saturating_add(uptime.subsec_nanos() % RETRY_SPREAD);
        }
    }

    /// The headers of the response, names in lower case.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers =
            vec![("content-type", "application/json".to_owned()), ("cache-control", "no-cache, private".to_owned())];
        headers.extend(self.retry_after.map(|seconds| ("retry-after", seconds.to_string())));
        headers
    }

    /// Envoy's `response.code_details` of the response, for access logs.
    pub fn details(&self) -> String {
        details(self.cause.as_str())
    }

    /// The `Status` body.
    pub fn body(&self) -> String {
        let mut body = String::with_capacity(self.message.len().saturating_add(160));
        body.push_str(r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":""#);
        escape_json(&self.message, &mut body);
        for part in [r#"","reason":""#, self.reason, "\""] {
            body.push_str(part);
        }
        if let Some(object) = &self.object {
            object.write(&mut body);
        } else if let Some(seconds) = self.retry_after {
            let _ = write!(body, r#","details":{{"retryAfterSeconds":{seconds}}}"#);
        }
        // Writing to a String does not fail.
        let _ = writeln!(body, r#","code":{}}}"#, self.code);
        body
    }
}

/// Envoy's `response.code_details` of what the filter does for a reason.
pub fn details(reason: &str) -> String {
    format!("{}{reason}", names::REPLY_DETAILS_PREFIX)
}

impl ForbiddenObject {
    /// As Go writes it: what is empty is left out.
    fn write(&self, body: &mut String) {
        body.push_str(r#","details":{"#);
        let mut comma = "";
        for (key, value) in [("name", &self.name), ("group", &self.group), ("kind", &self.resource)] {
            if value.is_empty() {
                continue;
            }
            for part in [comma, "\"", key, "\":\""] {
                body.push_str(part);
            }
            escape_json(value, body);
            body.push('"');
            comma = ",";
        }
        body.push('}');
    }
}

/// Text without special characters, which is mostly all of it, is copied in one piece.
fn escape_json(text: &str, body: &mut String) {
    let mut rest = text;
    let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    while let Some((plain, tail)) = rest.bytes().position(is_special).and_then(|at| rest.split_at_checked(at)) {
        body.push_str(plain);
        let mut tail = tail.chars();
        match tail.next() {
            Some('"') => body.push_str("\\\""),
            Some('\\') => body.push_str("\\\\"),
            // Writing to a String does not fail.
            Some(control) => _ = write!(body, "\\u{:04x}", u32::from(control)),
            None => {}
        }
        rest = tail.as_str();
    }
    body.push_str(rest);
}

#[cfg(test)]
mod tests;

//! `Status` bodies for Envoy's own replies, because Kubernetes clients read nothing else.
//!
//! There is no top-level format: it would wrap the bodies of the filter and of direct responses, which are a `Status` already.
//! The first mapper that matches applies. Messages are fixed texts: Envoy's own name addresses and TLS errors.
//!
//! `Retry-After` is only in replies to requests that no server saw, because Kubernetes clients repeat any method on it: a pool
//! without healthy server, a connection that could not be made, a full pool, a gateway without memory. Envoy retries writes
//! under the same condition only, so that an attempt before the last one has reached no server, either.

use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::comparison_filter::Op;
use envoy_types::pb::envoy::config::accesslog::v3::{
    AccessLogFilter, ComparisonFilter, ExtensionFilter, ResponseFlagFilter, StatusCodeFilter, extension_filter,
};
use envoy_types::pb::envoy::config::core::v3::{RuntimeUInt32, SubstitutionFormatString, substitution_format_string};
use envoy_types::pb::envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    LocalReplyConfig, ResponseMapper,
};
use envoy_types::util::pack_any;
use portcullis_filter_config::names::REPLY_DETAILS_PREFIX;

use crate::proto::{header, inline_string, uint};
use crate::status_body;

/// Seconds after which a client may repeat what no server saw.
const RETRY_AFTER: u32 = 1;

/// Envoy wants the name of a runtime value that would replace the code. None is set.
const NO_OVERRIDE: &str = "portcullis.local_reply";

const UNAVAILABLE: &str = "ServiceUnavailable";

/// The header that has browsers use HTTPS only (RFC 6797).
pub(super) const HSTS: &str = "strict-transport-security";

/// All mappers. Replies to what is no request pass no filter, so that each mapper adds the value of [`HSTS`] itself.
pub(super) fn config(hsts: Option<&str>) -> LocalReplyConfig {
    let mut mappers = vec![untouched()];
    mappers.extend(unreached());
    mappers.extend(reached());
    mappers.push(answered());
    mappers.extend(own_replies());
    for mapper in &mut mappers {
        mapper.headers_to_add.extend(hsts.map(|value| header(HSTS, value)));
    }
    LocalReplyConfig { mappers, body_format: None }
}

/// Ends the search for what has its `Status` already, so that a flood of refusals costs one comparison each.
fn untouched() -> ResponseMapper {
    let ours = format!(
        "response.code_details.startsWith('{REPLY_DETAILS_PREFIX}') || response.code_details == 'direct_response'"
    );
    ResponseMapper { filter: Some(cel(ours)), ..Default::default() }
}

/// No server saw the request.
fn unreached() -> impl Iterator<Item = ResponseMapper> {
    [
        ("UH", 503, UNAVAILABLE, "no kube-apiserver of this cluster is healthy"),
        ("UO", 429, "TooManyRequests", "too many requests to this cluster are under way"),
        ("UF", 503, UNAVAILABLE, "the connection to the kube-apiserver failed"),
        ("NC", 503, UNAVAILABLE, "the gateway does not know the cluster's servers yet"),
    ]
    .map(|(flag, code, reason, message)| (flagged(&[flag]), code, reason, message))
    .into_iter()
    .chain([(
        // Envoy sets no flag.
        cel("response.code_details == 'overload'".to_owned()),
        503,
        UNAVAILABLE,
        "the gateway is short of memory",
    )])
    .map(|(filter, code, reason, message)| ResponseMapper {
        filter: Some(filter),
        status_code: Some(uint(code)),
        headers_to_add: vec![header("retry-after", &RETRY_AFTER.to_string())],
        body_format_override: Some(format(status_body::formatted_retry(message, reason, RETRY_AFTER))),
        ..Default::default()
    })
}

/// A server may have seen the request, or another try would fare no better.
fn reached() -> impl Iterator<Item = ResponseMapper> {
    let broke_off = "the kube-apiserver broke off before it answered; whether the request took effect is unknown";
    let no_credential = "response.code_details == 'failed_to_inject_credential'".to_owned();
    [
        (flagged(&["UT"]), 504, "Timeout", "the kube-apiserver did not answer within the request timeout"),
        (flagged(&["SI"]), 504, "Timeout", "the request was idle for too long"),
        (flagged(&["UC", "UR", "LR", "URX", "UPE"]), 503, UNAVAILABLE, broke_off),
        (cel(no_credential), 503, UNAVAILABLE, "the gateway has no credential for this cluster"),
        // Envoy's 403 would send people looking for missing rights.
        (cel("response.code_details == 'upgrade_failed'".to_owned()), 400, "BadRequest", "unknown kind of upgrade"),
    ]
    .into_iter()
    .map(|(filter, code, reason, message)| ResponseMapper {
        filter: Some(filter),
        status_code: Some(uint(code)),
        body_format_override: Some(format(status_body::formatted(message, reason))),
        ..Default::default()
    })
}

/// Ends the search for what a server answered.
fn answered() -> ResponseMapper {
    ResponseMapper { filter: Some(cel("response.code_details == 'via_upstream'".to_owned())), ..Default::default() }
}

/// Whatever else Envoy answers itself, by its code; reasons are those of `metav1` where there is one. Not by expressions: each
/// takes 5 KiB of every filter chain, and some time.
fn own_replies() -> impl Iterator<Item = ResponseMapper> {
    let (cannot, failed) = ("the gateway cannot process this request", "the gateway failed to process this request");
    [
        (Op::Eq, 404, "NotFound", "there is nothing at this target"),
        (Op::Eq, 405, "MethodNotAllowed", cannot),
        (Op::Eq, 408, "Timeout", "the request did not arrive in time"),
        (Op::Eq, 413, "RequestEntityTooLarge", "the request is too large"),
        (Op::Eq, 426, "UpgradeRequired", "use HTTP/1.1 or HTTP/2"),
        (Op::Eq, 429, "TooManyRequests", "the gateway is overloaded"),
        (Op::Eq, 431, "RequestHeaderFieldsTooLarge", "the request's headers are too large or too many"),
        (Op::Eq, 501, "NotImplemented", cannot),
        (Op::Eq, 503, UNAVAILABLE, "the gateway cannot serve this request at the moment"),
        (Op::Eq, 504, "Timeout", "the request took too long"),
        (Op::Ge, 500, "InternalError", failed),
        (Op::Ge, 400, "BadRequest", cannot),
    ]
    .into_iter()
    .map(|(op, code, reason, message)| ResponseMapper {
        filter: Some(coded(op, code)),
        body_format_override: Some(format(status_body::formatted(message, reason))),
        ..Default::default()
    })
}

/// The condition on an answer's code.
pub(super) fn coded(op: Op, code: u32) -> AccessLogFilter {
    let value = RuntimeUInt32 { default_value: code, runtime_key: NO_OVERRIDE.to_owned() };
    let comparison = ComparisonFilter { op: op.into(), value: Some(value) };
    let filter = StatusCodeFilter { comparison: Some(comparison) };
    AccessLogFilter { filter_specifier: Some(FilterSpecifier::StatusCodeFilter(filter)) }
}

fn flagged(flags: &[&str]) -> AccessLogFilter {
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    AccessLogFilter { filter_specifier: Some(FilterSpecifier::ResponseFlagFilter(ResponseFlagFilter { flags })) }
}

/// The condition of an expression.
pub(super) fn cel(expression: String) -> AccessLogFilter {
    let config = ExpressionFilter { expression, ..Default::default() };
    let filter = ExtensionFilter {
        name: "envoy.access_loggers.extension_filters.cel".to_owned(),
        config_type: Some(extension_filter::ConfigType::TypedConfig(pack_any(config))),
    };
    AccessLogFilter { filter_specifier: Some(FilterSpecifier::ExtensionFilter(filter)) }
}

fn format(body: String) -> SubstitutionFormatString {
    SubstitutionFormatString {
        content_type: "application/json".to_owned(),
        format: Some(substitution_format_string::Format::TextFormatSource(inline_string(body))),
        ..Default::default()
    }
}

//! `Status` bodies for what Envoy itself answers, because Kubernetes clients read nothing else.
//!
//! There is no top-level format: it would wrap the bodies of the filter and of direct responses, which are a `Status`
//! already. The first mapper that matches wins.

use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::{
    AccessLogFilter, ExtensionFilter, ResponseFlagFilter, extension_filter,
};
use envoy_types::pb::envoy::config::core::v3::{SubstitutionFormatString, substitution_format_string};
use envoy_types::pb::envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    LocalReplyConfig, ResponseMapper,
};
use envoy_types::util::pack_any;
use portcullis_filter_config::names::REPLY_DETAILS_PREFIX;

use crate::proto::{header, inline_string, uint};
use crate::status_body;

/// All mappers.
pub(super) fn config() -> LocalReplyConfig {
    let mut mappers = vec![
        flagged(&["UH"], 503, "ServiceUnavailable", "no kube-apiserver of this cluster is healthy"),
        overflow(),
        flagged(&["UF"], 503, "ServiceUnavailable", "the connection to the kube-apiserver failed"),
        flagged(&["UT"], 504, "Timeout", "the kube-apiserver did not answer within the request timeout"),
        flagged(&["NC"], 503, "ServiceUnavailable", "the gateway does not know the cluster's servers yet"),
        flagged(&["SI"], 504, "Timeout", "the request was idle for too long"),
        flagged(
            &["UC", "UR", "LR", "URX", "UPE"],
            503,
            "ServiceUnavailable",
            "the kube-apiserver broke off before it answered; whether the request took effect is unknown",
        ),
        mapped(
            cel("response.code_details == 'failed_to_inject_credential'".to_owned()),
            503,
            "ServiceUnavailable",
            "the gateway has no credential for this cluster",
        ),
    ];
    for (from, to, reason, message) in [
        (413, 414, "RequestEntityTooLarge", "the request is too large"),
        (431, 432, "RequestHeaderFieldsTooLarge", "the request's headers are too large"),
        (400, 500, "BadRequest", "the gateway cannot process this request"),
        (500, 600, "InternalError", "the gateway failed to process this request"),
    ] {
        mappers.push(ResponseMapper {
            filter: Some(cel(own_reply(from, to))),
            body_format_override: Some(format(reason, message)),
            ..Default::default()
        });
    }
    LocalReplyConfig { mappers, body_format: None }
}

/// A reply of Envoy's with a code in this range: not one of the filter, of a direct response or of an upstream.
fn own_reply(from: u16, to: u16) -> String {
    format!(
        "response.code >= {from} && response.code < {to} \
         && !response.code_details.startsWith('{REPLY_DETAILS_PREFIX}') \
         && response.code_details != 'direct_response' && response.code_details != 'via_upstream'"
    )
}

/// A full pool: the upstream certainly saw nothing, so any method may be sent again.
fn overflow() -> ResponseMapper {
    let mut mapper = flagged(&["UO"], 429, "TooManyRequests", "too many requests to this cluster are under way");
    mapper.headers_to_add = vec![header("retry-after", "1")];
    mapper
}

fn flagged(flags: &[&str], code: u32, reason: &str, message: &str) -> ResponseMapper {
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let filter =
        AccessLogFilter { filter_specifier: Some(FilterSpecifier::ResponseFlagFilter(ResponseFlagFilter { flags })) };
    mapped(filter, code, reason, message)
}

fn mapped(filter: AccessLogFilter, code: u32, reason: &str, message: &str) -> ResponseMapper {
    ResponseMapper {
        filter: Some(filter),
        status_code: Some(uint(code)),
        body_format_override: Some(format(reason, message)),
        ..Default::default()
    }
}

fn cel(expression: String) -> AccessLogFilter {
    let config = ExpressionFilter { expression, ..Default::default() };
    let filter = ExtensionFilter {
        name: "envoy.access_loggers.extension_filters.cel".to_owned(),
        config_type: Some(extension_filter::ConfigType::TypedConfig(pack_any(config))),
    };
    AccessLogFilter { filter_specifier: Some(FilterSpecifier::ExtensionFilter(filter)) }
}

fn format(reason: &str, message: &str) -> SubstitutionFormatString {
    let text = inline_string(status_body::formatted(message, reason));
    SubstitutionFormatString {
        content_type: "application/json".to_owned(),
        format: Some(substitution_format_string::Format::TextFormatSource(text)),
        ..Default::default()
    }
}

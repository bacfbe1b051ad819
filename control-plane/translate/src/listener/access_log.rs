//! The access log: one JSON object a line.
//!
//! Whatever a client can write is escaped by the filter, which hands over finished members; beside them are only words and
//! numbers of Envoy's own that cannot end a JSON string.

use envoy_types::pb::envoy::config::accesslog::v3::access_log::ConfigType;
use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::comparison_filter::Op;
use envoy_types::pb::envoy::config::accesslog::v3::{AccessLog as Log, AccessLogFilter, AndFilter, MetadataFilter};
use envoy_types::pb::envoy::config::core::v3::{SubstitutionFormatString, substitution_format_string::Format};
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::{FileAccessLog, file_access_log};
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3::{
    StderrAccessLog, StdoutAccessLog, stderr_access_log, stdout_access_log,
};
use envoy_types::pb::envoy::r#type::matcher::v3::metadata_matcher::{PathSegment, path_segment::Segment};
use envoy_types::pb::envoy::r#type::matcher::v3::{MetadataMatcher, ValueMatcher, value_matcher::MatchPattern};
use envoy_types::util::pack_any;
use portcullis_api::AccessLog;
use portcullis_filter_config::names;

use super::local_reply;
use crate::filter_build::FilterBuild;
use crate::proto::{boolean, inline_string};

/// Members that Envoy writes: names, operators, and whether the value is a text. A text of these never holds a quote.
const OWN: [(&str, &str, bool); 10] = [
    ("time", "%START_TIME%", true),
    ("client", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", true),
    ("protocol", "%PROTOCOL%", true),
    ("endpoint", "%UPSTREAM_HOST%", true),
    ("code", "%RESPONSE_CODE%", false),
    ("flags", "%RESPONSE_FLAGS%", true),
    ("durationMs", "%DURATION%", false),
    ("bytesReceived", "%BYTES_RECEIVED%", false),
    ("bytesSent", "%BYTES_SENT%", false),
    ("attempts", "%UPSTREAM_REQUEST_ATTEMPT_COUNT%", false),
];

/// The log of requests to a cluster: those for which the filter has left members.
pub(super) fn of_requests(destination: &AccessLog, filter: FilterBuild) -> Vec<Log> {
    match filter {
        FilterBuild::Module => of_metadata(destination),
        FilterBuild::Wasm => of_filter_state(destination),
    }
}

/// A VM writes no dynamic metadata, but filter state.
fn of_filter_state(destination: &AccessLog) -> Vec<Log> {
    let key = format!("{}{}", names::wasm::FILTER_STATE_PREFIX, names::wasm::LOG_MEMBERS);
    let expression = format!("'{key}' in filter_state");
    let filter = local_reply::cel(expression);
    let members = format!("%FILTER_STATE({key}:PLAIN)%");
    log(destination, Format::TextFormatSource(inline_string(line(&members))), Some(filter))
}

fn of_metadata(destination: &AccessLog) -> Vec<Log> {
    let is_present = ValueMatcher { match_pattern: Some(MatchPattern::PresentMatch(true)) };
    let matcher = MetadataMatcher {
        filter: names::LOG.to_owned(),
        path: vec![PathSegment { segment: Some(Segment::Key(names::LOG_MEMBERS.to_owned())) }],
        value: Some(is_present),
        ..Default::default()
    };
    let filter = MetadataFilter { matcher: Some(matcher), match_if_key_not_found: Some(boolean(false)) };
    let filter = AccessLogFilter { filter_specifier: Some(FilterSpecifier::MetadataFilter(filter)) };
    let members = format!("%DYNAMIC_METADATA({}:{})%", names::LOG, names::LOG_MEMBERS);
    log(destination, Format::TextFormatSource(inline_string(line(&members))), Some(filter))
}

/// The log of requests to unknown names. The filter does not see them. Envoy lets only the characters of host names through in
/// the name that the client asked for.
pub(super) fn of_strangers(destination: &AccessLog) -> Vec<Log> {
    let name = r#""sni":"%REQUESTED_SERVER_NAME%","decision":"refused","reason":"not_served""#;
    log(destination, Format::TextFormatSource(inline_string(line(name))), None)
}

/// The log of connections that are passed on: a line at the end of each. The name is that of an object, which is a DNS name.
pub(super) fn of_passed_on(destination: &AccessLog, cluster: &str) -> Vec<Log> {
    let members = format!(r#""cluster":"{cluster}","sni":"%REQUESTED_SERVER_NAME%","decision":"passed_on""#);
    log(destination, Format::TextFormatSource(inline_string(line(&members))), None)
}

/// The log of connections that are passed on by a route of a Gateway. All names are those of objects, which are DNS names.
pub(super) fn of_route(destination: &AccessLog, gateway: &str, route: &str) -> Vec<Log> {
    let names = format!(r#""gateway":"{gateway}","route":"{route}","pool":"%UPSTREAM_CLUSTER%""#);
    let members = format!(r#"{names},"sni":"%REQUESTED_SERVER_NAME%","decision":"passed_on""#);
    log(destination, Format::TextFormatSource(inline_string(line(&members))), None)
}

/// The log of requests at a Gateway that a connection for other names got: the filter is off for these. Names of objects are DNS names.
pub(super) fn of_misdirected(destination: &AccessLog, gateway: &str) -> Vec<Log> {
    of_answers(destination, gateway, 421, "misdirected")
}

/// The log of requests at a Gateway whose route has no backend that can be used. The filter is not there.
pub(super) fn of_unresolved(destination: &AccessLog, gateway: &str) -> Vec<Log> {
    of_answers(destination, gateway, 500, "unresolved")
}

fn of_answers(destination: &AccessLog, gateway: &str, code: u32, reason: &str) -> Vec<Log> {
    let names = format!(r#""gateway":"{gateway}","sni":"%REQUESTED_SERVER_NAME%""#);
    let members = format!(r#"{names},"decision":"refused","reason":"{reason}""#);
    // Those that the filter refuses have a line of its own.
    let direct = local_reply::cel("response.code_details == 'direct_response'".to_owned());
    let both = AndFilter { filters: vec![local_reply::coded(Op::Eq, code), direct] };
    let filter = AccessLogFilter { filter_specifier: Some(FilterSpecifier::AndFilter(both)) };
    log(destination, Format::TextFormatSource(inline_string(line(&members))), Some(filter))
}

/// The log of tunnels that were not opened. The filter does not see them; those that are, are in the lines of the requests inside.
pub(super) fn of_refused_tunnels(destination: &AccessLog) -> Vec<Log> {
    let members = r#""tunnel":true,"decision":"refused","reason":"not_served""#;
    let filter = Some(local_reply::coded(Op::Ge, 400));
    log(destination, Format::TextFormatSource(inline_string(line(members))), filter)
}

fn line(members: &str) -> String {
    let mut line = String::from("{");
    for (name, operator, is_text) in OWN {
        let quote = if is_text { "\"" } else { "" };
        line += &format!("\"{name}\":{quote}{operator}{quote},");
    }
    line + members + "}\n"
}

fn log(destination: &AccessLog, format: Format, filter: Option<AccessLogFilter>) -> Vec<Log> {
    let format = SubstitutionFormatString { format: Some(format), ..Default::default() };
    let (name, config) = match destination {
        AccessLog::None => return Vec::new(),
        AccessLog::Stdout => {
            let access_log_format = Some(stdout_access_log::AccessLogFormat::LogFormat(format));
            ("envoy.access_loggers.stdout", pack_any(StdoutAccessLog { access_log_format }))
        }
        AccessLog::Stderr => {
            let access_log_format = Some(stderr_access_log::AccessLogFormat::LogFormat(format));
            ("envoy.access_loggers.stderr", pack_any(StderrAccessLog { access_log_format }))
        }
        AccessLog::File(path) => {
            let access_log_format = Some(file_access_log::AccessLogFormat::LogFormat(format));
            ("envoy.access_loggers.file", pack_any(FileAccessLog { path: path.clone(), access_log_format }))
        }
    };
    vec![Log { name: name.to_owned(), filter, config_type: Some(ConfigType::TypedConfig(config)) }]
}

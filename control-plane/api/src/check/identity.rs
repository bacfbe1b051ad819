use portcullis_filter_config::RequestHeaders;

use super::Findings;
use crate::references::UNKNOWN_TOKEN;
use crate::types::{PortcullisSpec, RequestHeaderNames, UpstreamClusterSpec};

/// The way in which the authenticated user is forwarded to the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamIdentity {
    /// By `Impersonate-*` headers, with the gateway's own right to impersonate.
    Impersonate,
    /// By an authenticating proxy's headers; tokens go on to the servers.
    RequestHeader {
        /// The user of the gateway's own requests: the front-proxy certificate names none.
        user: String,
        /// Whether the servers are asked whose a token is.
        token_review: bool,
    },
}

const PATH: &str = "spec.portcullis.upstreamIdentity";
/// As whom the gateway asks.
const USER: &str = "system:portcullis";

pub(super) fn check_identity(spec: &UpstreamClusterSpec, findings: &mut Findings) -> UpstreamIdentity {
    let ours = &spec.portcullis;
    match ours.upstream_identity.as_str() {
        "" | "Impersonate" => {
            if ours.request_header.token_review.is_some() || ours.request_header.user.is_some() {
                findings.problem("spec.portcullis.requestHeader", "needs upstreamIdentity: RequestHeader beside it");
            }
            UpstreamIdentity::Impersonate
        }
        "RequestHeader" => {
            check_credential(spec, findings);
            UpstreamIdentity::RequestHeader {
                user: check_user(ours, findings),
                token_review: ours.request_header.token_review.unwrap_or(true),
            }
        }
        _ => {
            findings.problem(PATH, "must be Impersonate or RequestHeader");
            UpstreamIdentity::Impersonate
        }
    }
}

/// kube-apiserver believes such headers of a client certificate only (`--requestheader-client-ca-file`).
fn check_credential(spec: &UpstreamClusterSpec, findings: &mut Findings) {
    let client = &spec.client_config;
    let references = &spec.portcullis.references;
    // A pair that is referred to and not at hand is assumed by a token.
    let is_assumed = references.client.is_some();
    if client.cert_data.is_empty() && !is_assumed {
        let message = "is required with upstreamIdentity: RequestHeader: it is the front-proxy certificate";
        findings.problem("spec.clientConfig.certData", message);
    }
    let stands_in = is_assumed && references.token.is_none() && client.bearer_token.expose() == UNKNOWN_TOKEN;
    if !client.bearer_token.is_empty() && !stands_in {
        let message = "is not possible with upstreamIdentity: RequestHeader: the servers would take it for the user's";
        findings.problem("spec.clientConfig.bearerToken", message);
    }
    if !spec.portcullis.forwarded_extras.is_empty() {
        let message =
            "has no effect with upstreamIdentity: RequestHeader: every extra is forwarded, without a permission";
        findings.warning("spec.portcullis.forwardedExtras", message);
    }
}

fn check_user(ours: &PortcullisSpec, findings: &mut Findings) -> String {
    let user = ours.request_header.user.as_deref().unwrap_or(USER);
    if user.is_empty() || user.trim() != user || user.chars().any(char::is_control) {
        findings.problem("spec.portcullis.requestHeader.user", "must be a user name without blanks at an end");
    }
    user.to_owned()
}

/// Names that mean something else to Envoy, to the filter or to kube-apiserver.
const TAKEN: [&str; 7] = [
    "x-envoy-",
    "x-forwarded-",
    "x-portcullis-",
    "x-real-ip",
    "x-request-id",
    "x-stream-protocol-version",
    "x-kubernetes-",
];

/// Starts of names that a client needs, or that Envoy or the filter judge a request by: removing them would break requests.
const NEEDED: [&str; 23] = [
    "accept",
    "access-control-",
    "authorization",
    "cache-control",
    "connection",
    "content-",
    "cookie",
    "expect",
    "forwarded",
    "if-",
    "impersonate-",
    "keep-alive",
    "last-event-id",
    "origin",
    "pragma",
    "range",
    "sec-websocket-",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
/// Maximum number of reserved names: each is compared with each header of each request.
const MAX_RESERVED: usize = 16;

pub(super) fn is_header_name(name: &str) -> bool {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_taken = TAKEN.iter().any(|taken| taken.starts_with(name) || name.starts_with(taken));
    name.len() >= 5 && is_word && !is_taken
}

fn check_reserved(raw: &[String], findings: &mut Findings) -> Vec<String> {
    if raw.len() > MAX_RESERVED {
        findings.problem("spec.requestHeaderNames.reserved", format!("must be at most {MAX_RESERVED} names"));
    }
    let mut reserved: Vec<String> = Vec::new();
    for (index, name) in raw.iter().enumerate() {
        let name = name.to_ascii_lowercase();
        let is_needed = NEEDED.iter().any(|needed| needed.starts_with(&name) || name.starts_with(needed));
        if !is_header_name(&name) || is_needed {
            let message = "must be a header name, or the start of one, of at least 5 characters that nothing else uses";
            findings.problem(format!("spec.requestHeaderNames.reserved[{index}]"), message);
        }
        reserved.push(name);
    }
    reserved.sort();
    reserved.dedup();
    reserved
}

pub(super) fn check_header_names(raw: &RequestHeaderNames, findings: &mut Findings) -> RequestHeaders {
    let default = RequestHeaders::default();
    let mut name = |field: &str, raw: &Option<String>, default: String| {
        let Some(raw) = raw else { return default };
        let name = raw.to_ascii_lowercase();
        if !name.starts_with("x-") || !is_header_name(&name) {
            let message = "must be a header name that starts with X- and that nothing else uses";
            findings.problem(format!("spec.requestHeaderNames.{field}"), message);
        }
        name
    };
    let headers = RequestHeaders {
        user: name("user", &raw.user, default.user),
        group: name("group", &raw.group, default.group),
        uid: match raw.uid.as_deref() {
            Some("") => String::new(),
            _ => name("uid", &raw.uid, default.uid),
        },
        extra_prefix: name("extraPrefix", &raw.extra_prefix, default.extra_prefix),
        reserved: check_reserved(&raw.reserved, findings),
    };
    let all = [&headers.user, &headers.group, &headers.uid];
    let is_told_twice =
        all.iter().enumerate().any(|(index, name)| all.iter().skip(index + 1).any(|other| other == name));
    let is_extra = all.iter().any(|name| name.starts_with(&headers.extra_prefix));
    if is_told_twice || is_extra {
        findings
            .problem("spec.requestHeaderNames", "must be four different names, none of which starts with extraPrefix");
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str]) -> (Vec<String>, usize) {
        let mut findings = Findings::default();
        let raw = RequestHeaderNames {
            reserved: names.iter().map(|name| (*name).to_owned()).collect(),
            ..RequestHeaderNames::default()
        };
        (check_header_names(&raw, &mut findings).reserved, findings.problems.len())
    }

    #[test]
    fn reserved_header_names_are_lower_case_and_needed_by_no_client() {
        assert_eq!(
            check(&["X-Auth-User", "Remote-Group", "remote-group"]),
            (vec!["remote-group".to_owned(), "x-auth-user".to_owned()], 0)
        );
        for wrong in [
            "",
            "x-",
            "x-a",
            "x-request-id",
            "x-real-ip",
            "x-forwarded-for",
            "x-for",
            "x-envoy-",
            "accept",
            "Accept-Encoding",
            "content-",
            "Authorization",
            "impersonate-user",
            "user-agent",
            "sec-websocket-protocol",
            "x auth",
            "x-auth\r\n",
            "X_Auth",
        ] {
            assert_eq!(check(&[wrong]).1, 1, "{wrong:?}");
        }
        let many: Vec<String> = (0..17).map(|number| format!("x-auth-{number}")).collect();
        assert_eq!(check(&many.iter().map(String::as_str).collect::<Vec<_>>()).1, 1);
    }
}

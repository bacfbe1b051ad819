use super::Findings;
use crate::references::UNKNOWN_TOKEN;
use crate::{PortcullisSpec, RequestHeaderNames, UpstreamClusterSpec};

/// How the authenticated user is told to the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamIdentity {
    /// By `Impersonate-*` headers, with the gateway's own right to impersonate.
    Impersonate,
    /// By an authenticating proxy's headers; tokens go on to the servers.
    RequestHeader {
        /// The user as whom the gateway itself asks: the front-proxy certificate names nobody.
        user: String,
        /// Whether the servers are asked whose a token is.
        token_review: bool,
    },
}

/// The names of an authenticating proxy's headers, lower-case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaders {
    /// The user's name.
    pub user: String,
    /// One line for each group.
    pub group: String,
    /// The user's UID; empty where it is not told.
    pub uid: String,
    /// What the names of extra attributes start with.
    pub extra_prefix: String,
}

impl Default for RequestHeaders {
    fn default() -> Self {
        let name = |rest: &str| format!("x-remote-{rest}");
        Self { user: name("user"), group: name("group"), uid: name("uid"), extra_prefix: name("extra-") }
    }
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
    // Where the pair is referred to and not at hand, a token stands in for it.
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
        let message = "has no effect with upstreamIdentity: RequestHeader: every extra is told, and needs no leave";
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
const TAKEN: [&str; 6] =
    ["x-envoy-", "x-forwarded-", "x-portcullis-", "x-request-id", "x-stream-protocol-version", "x-kubernetes-"];

pub(super) fn check_header_names(raw: &RequestHeaderNames, findings: &mut Findings) -> RequestHeaders {
    let default = RequestHeaders::default();
    let mut name = |field: &str, raw: &Option<String>, default: String| {
        let Some(raw) = raw else { return default };
        let name = raw.to_ascii_lowercase();
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_taken = TAKEN.iter().any(|taken| taken.starts_with(&name) || name.starts_with(taken));
        if name.len() < 5 || !name.starts_with("x-") || !is_word || is_taken {
            let message = "must be a header name that starts with X- and that nothing else uses";
            findings.problem(format!("spec.requestHeaders.{field}"), message);
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
    };
    let all = [&headers.user, &headers.group, &headers.uid];
    let is_told_twice =
        all.iter().enumerate().any(|(index, name)| all.iter().skip(index + 1).any(|other| other == name));
    let is_extra = all.iter().any(|name| name.starts_with(&headers.extra_prefix));
    if is_told_twice || is_extra {
        findings.problem("spec.requestHeaders", "must be four different names, none of which starts with extraPrefix");
    }
    headers
}

use super::Outcome;
use super::json::JsonMembers;
use crate::header_scan::HeaderScan;
use crate::identity::UserInfo;
use crate::request_info::RequestInfo;

/// Bounds, in characters: a line is for people, and a hostile client writes as much as it may.
const PATH: usize = 1_024;
const NAME: usize = 253;
const USER: usize = 256;
const USER_AGENT: usize = 256;
const DETAILS: usize = 512;
/// Groups that a line names; the rest is a number.
const GROUPS: usize = 32;

/// The filter's part of a line of the access log: members of a JSON object. No credential ever stands in it, and of a
/// path only what comes before the query, where commands of `exec` are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogEntry(JsonMembers);

impl AccessLogEntry {
    /// A line about a request of which nothing is known.
    pub fn bare() -> Self {
        AccessLogEntry(JsonMembers::default())
    }

    pub(super) fn of_cluster(cluster: &str) -> Self {
        let mut members = JsonMembers::with_capacity(768);
        members.text("cluster", cluster.as_bytes(), NAME);
        AccessLogEntry(members)
    }

    pub(super) fn message(&mut self, scan: &HeaderScan<'_>) {
        let path = scan.path.split(|byte| *byte == b'?').next().unwrap_or_default();
        self.0.text("method", scan.method, 32);
        self.0.text("path", path, PATH);
    }

    pub(super) fn request(&mut self, info: &RequestInfo<'_>) {
        self.0.text("verb", &info.verb, 32);
        if info.is_resource {
            self.0.text("apiGroup", info.api_group, NAME);
            self.0.text("apiVersion", info.api_version, NAME);
            self.0.text("resource", info.resource, NAME);
            self.0.text("subresource", info.subresource, NAME);
            self.0.text("namespace", info.namespace, NAME);
            self.0.text("name", &info.name, NAME);
        }
    }

    pub(super) fn user(&mut self, user: &UserInfo) {
        self.0.text("user", user.name.as_bytes(), USER);
        self.0.texts("groups", user.groups.iter().take(GROUPS).map(String::as_bytes), USER);
        if let Some(more) = user.groups.len().checked_sub(GROUPS).filter(|more| *more > 0) {
            self.0.number("moreGroups", more);
        }
    }

    pub(super) fn impersonated(&mut self, user: &UserInfo) {
        self.0.text("impersonatedUser", user.name.as_bytes(), USER);
    }

    pub(super) fn dispatch(&mut self, policy: &str, schema: &str, group: &str) {
        self.0.text("policy", policy.as_bytes(), NAME);
        self.0.text("schema", schema.as_bytes(), NAME);
        self.0.text("serverGroup", group.as_bytes(), NAME);
    }

    /// `User-Agent` and the request's id.
    pub fn client(&mut self, user_agent: Option<&[u8]>, request_id: Option<&[u8]>) {
        self.0.text("userAgent", user_agent.unwrap_or_default(), USER_AGENT);
        self.0.text("requestId", request_id.unwrap_or_default(), 64);
    }

    /// The members, with what became of the request and Envoy's word for how the answer came about.
    pub fn finish(mut self, outcome: Outcome, details: Option<&[u8]>) -> String {
        self.0.text("decision", outcome.decision().as_bytes(), NAME);
        self.0.text("reason", outcome.reason().as_bytes(), NAME);
        self.0.text("details", details.unwrap_or_default(), DETAILS);
        self.0.into_string()
    }
}

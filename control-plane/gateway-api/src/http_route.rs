use serde::{Deserialize, Serialize};

use crate::meta::ObjectMeta;
use crate::other_fields::OtherFields;
use crate::route::{BackendReference, HttpFilter, ParentReference, RouteStatus};

/// Requests that are routed by their host name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRoute {
    /// Name, namespace and age.
    pub metadata: ObjectMeta,
    /// The wanted state.
    pub spec: HttpRouteSpec,
    /// The status that is there.
    #[serde(default)]
    pub status: RouteStatus,
}

/// The wanted state of an [`HttpRoute`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// The Gateways that it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentReference>,
    /// The names; none are those of the listener.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// The rules, the first that matches counts; without any, one that matches all and has no server.
    #[serde(default = "one_rule")]
    pub rules: Vec<HttpRule>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// A rule of an [`HttpRoute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRule {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The requests: one of these must match.
    #[serde(default = "one_match")]
    pub matches: Vec<HttpMatch>,
    /// Changes of requests and responses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<HttpFilter>,
    /// The servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_refs: Vec<BackendReference>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Requirements of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpMatch {
    /// Its path.
    pub path: PathMatch,
    /// Fields that are not served: headers, queries, a method.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The path that a request must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathMatch {
    /// How it is compared.
    #[serde(rename = "type")]
    pub kind: PathMatchKind,
    /// The path, or its beginning.
    pub value: String,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// How a path is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathMatchKind {
    /// By its first segments.
    PathPrefix,
    /// Another way.
    #[serde(untagged)]
    Other(String),
}

impl Default for PathMatch {
    fn default() -> Self {
        Self { kind: PathMatchKind::PathPrefix, value: "/".to_owned(), other: OtherFields::default() }
    }
}

impl PathMatch {
    /// Whether every path matches.
    pub fn matches_all(&self) -> bool {
        self.kind == PathMatchKind::PathPrefix && self.value == "/" && self.other.is_empty()
    }
}

fn one_match() -> Vec<HttpMatch> {
    vec![HttpMatch::default()]
}

fn one_rule() -> Vec<HttpRule> {
    vec![HttpRule { matches: one_match(), ..HttpRule::default() }]
}

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::GATEWAY_API_GROUP;
use crate::other_fields::OtherFields;

/// The Gateway, or one of its listeners, to which a route attaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// The API group.
    #[serde(default = "gateway_group")]
    pub group: String,
    /// The kind.
    #[serde(default = "gateway_kind")]
    pub kind: String,
    /// The namespace; none is the route's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The name of a listener; none is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// The port of listeners; none is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Fields that are not known: they could narrow what is meant.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The server behind a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendReference {
    /// The API group; empty is the core group.
    #[serde(default)]
    pub group: String,
    /// The kind.
    #[serde(default = "service_kind")]
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; none is the route's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The port of a Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The share, in proportion to the sum of a rule's weights.
    #[serde(default = "one")]
    pub weight: u32,
    /// Changes of requests to this server; of an `HTTPRoute` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<HttpFilter>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// A change of requests or responses. None is served; its kind is for the message that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpFilter {
    /// The kind of the change.
    #[serde(rename = "type")]
    pub kind: String,
    /// The change.
    #[serde(flatten)]
    pub settings: OtherFields,
}

/// The status of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// An entry for each controller and parent, as it is written: entries of other controllers are kept as they are.
    #[serde(default)]
    pub parents: Vec<Value>,
}

fn gateway_group() -> String {
    GATEWAY_API_GROUP.to_owned()
}

fn gateway_kind() -> String {
    "Gateway".to_owned()
}

fn service_kind() -> String {
    "Service".to_owned()
}

fn one() -> u32 {
    1
}

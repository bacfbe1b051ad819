use serde::{Deserialize, Serialize};

use crate::meta::ObjectMeta;
use crate::other_fields::OtherFields;
use crate::route::{BackendReference, ParentReference, RouteStatus};

/// Connections that are passed on by the name in their `ClientHello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsRoute {
    /// Name, namespace and age.
    pub metadata: ObjectMeta,
    /// The wanted state.
    pub spec: TlsRouteSpec,
    /// The status that is there.
    #[serde(default)]
    pub status: RouteStatus,
}

/// The wanted state of a [`TlsRoute`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRouteSpec {
    /// The Gateways that it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentReference>,
    /// The names.
    pub hostnames: Vec<String>,
    /// Exactly one.
    pub rules: Vec<TlsRule>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The servers of a [`TlsRoute`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRule {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The servers.
    pub backend_refs: Vec<BackendReference>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

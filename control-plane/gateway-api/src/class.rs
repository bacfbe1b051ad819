use serde::{Deserialize, Serialize};

use crate::meta::ObjectMeta;
use crate::other_fields::OtherFields;

/// A class of Gateways, and the controller that serves them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayClass {
    /// Name and generation.
    pub metadata: ObjectMeta,
    /// The wanted state.
    pub spec: GatewayClassSpec,
}

/// The wanted state of a [`GatewayClass`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// The controller, a path below its domain.
    pub controller_name: String,
    /// The object with the controller's own settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ParametersReference>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Fields that are not served.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The object with a class's or a Gateway's own settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParametersReference {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; none of a cluster-scoped object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::ObjectMeta;

/// Gateways and `UpstreamClusters` that are served apart from the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Instance {
    /// [`crate::INSTANCE_API_VERSION`].
    pub api_version: String,
    /// [`crate::INSTANCE_KIND`].
    pub kind: String,
    /// Name and time of creation are used.
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default)]
    pub spec: InstanceSpec,
    /// Ignored.
    #[serde(default)]
    pub status: Option<Value>,
}

/// The specification of an instance.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct InstanceSpec {
    /// The labels of its Gateways of the Gateway API. `{}` selects all, unset selects none. An Envoy that belongs to no Gateway belongs
    /// to an instance by its certificate.
    pub gateways_selector: Option<LabelSelector>,
    /// The labels of its `UpstreamClusters`. `{}` selects all, unset selects none.
    pub clusters_selector: Option<LabelSelector>,
    /// The name of the `GatewaySettings` of its Envoys; unset, they have those of the control plane, without the default certificate.
    pub settings: Option<String>,
}

/// Labels that an object needs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that must have these values, all of them.
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must hold, all of them.
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. An object without the label is `NotIn`.
    pub operator: String,
    /// The values for `In` and `NotIn`; empty for the others.
    pub values: Vec<String>,
}

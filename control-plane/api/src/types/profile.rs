use schemars::JsonSchema;
use serde::Deserialize;

use super::{DispatchPolicy, FlowControl};

/// Policies and limits that take the place of those of the spec while the annotation `portcullis.dev/profile` has the name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PolicyProfile {
    /// The name, as in the annotation. `heartbeats` and `trickle` replace the built-in profiles of these names; `frozen` is always
    /// the built-in one.
    pub name: String,
    /// Limits, in the place of `spec.flowControl`. Fair queues are those of the spec.
    pub flow_control: FlowControl,
    /// Policies, in the place of `spec.dispatchPolicies`.
    pub dispatch_policies: Vec<DispatchPolicy>,
}

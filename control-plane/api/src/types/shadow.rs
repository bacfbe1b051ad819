use schemars::JsonSchema;
use serde::Deserialize;

use super::{AccessSpec, DispatchPolicy, FlowControl};

/// An alternative that only reports: metrics and the access log have what it would have made of each request whose user is known, and
/// neither a client nor a server sees anything of it. A part that is not set is the real one. Not together with a policy of
/// `mode: Shadow`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ShadowSpec {
    /// All policies in the place of `spec.dispatchPolicies`.
    pub dispatch_policies: Option<Vec<DispatchPolicy>>,
    /// All limits in the place of `spec.flowControl`. They count for themselves, in each gateway alone: their limits of all gateways
    /// have no effect.
    pub flow_control: Option<FlowControl>,
    /// The lists in the place of `spec.portcullis.access`; `{}` is none.
    pub access: Option<AccessSpec>,
}

impl ShadowSpec {
    /// Whether it has a part of its own.
    pub(crate) fn is_set(&self) -> bool {
        self.dispatch_policies.is_some() || self.flow_control.is_some() || self.access.is_some()
    }
}

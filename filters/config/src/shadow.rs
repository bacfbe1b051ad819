use serde::{Deserialize, Serialize};

use crate::access::AccessLists;
use crate::cluster::{ClusterConfig, FlowControlSchema};
use crate::dispatch::Dispatch;
use crate::policy::Policy;

/// A whole alternative to the access lists, dispatch policies and limits of a cluster, which only reports. A request is judged by it
/// once it is decided, and only if its user is known; the outcome is counted and logged, and neither the client nor a server sees
/// anything of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shadow {
    /// Lists in the place of [`ClusterConfig::access`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessLists>,
    /// Limits in the place of [`ClusterConfig::flow_control_schemas`], with counts of their own. Their limits of all gateways have
    /// no effect. A policy that names a fair queue of the cluster is one without a limit: no request waits in a shadow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_control_schemas: Vec<FlowControlSchema>,
    /// Policies in the place of [`ClusterConfig::policies`]. Their groups need no servers.
    pub policies: Vec<Policy>,
}

impl ClusterConfig {
    /// The configuration in which the shadow is what decides; `None` without one.
    pub fn promoted(&self) -> Option<ClusterConfig> {
        let Shadow { access, flow_control_schemas, policies } = self.shadow.clone()?;
        let policies = Dispatch::Policies(policies);
        Some(ClusterConfig { access, flow_control_schemas, policies, shadow: None, ..self.clone() })
    }
}

use crate::cluster::{ClusterConfig, Shadow};
use crate::dispatch::Dispatch;

impl ClusterConfig {
    /// The configuration in which the shadow is what decides; `None` without one.
    pub fn promoted(&self) -> Option<ClusterConfig> {
        let Shadow { access, flow_control_schemas, policies, .. } = self.shadow.clone()?;
        let policies = Dispatch::Policies(policies);
        Some(ClusterConfig { access, flow_control_schemas, policies, shadow: None, ..self.clone() })
    }
}

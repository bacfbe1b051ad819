use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::Settings;
use portcullis_attach::ObjectName;
use portcullis_instances::{MemberName, Ownership};

use super::InstanceStates;

/// The owners of Gateways and clusters, and the settings of owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct GatewayDivision {
    pub(super) states: Arc<InstanceStates>,
    /// Settings of instances that have some of their own.
    pub(super) own: BTreeMap<String, Arc<Settings>>,
}

impl GatewayDivision {
    /// The instance that has a Gateway now.
    pub(in super::super) fn instance_of(&self, gateway: &ObjectName) -> Option<&str> {
        self.states.settled.owners.get(&MemberName::gateway(gateway.to_string()))?.holder.instance()
    }

    /// Whether it is known by which settings a Gateway is served.
    pub(in super::super) fn is_served(&self, gateway: &ObjectName) -> bool {
        let state = self.instance_of(gateway).and_then(|instance| self.states.by_name.get(instance));
        state.is_none_or(|state| state.is_served)
    }

    /// Whether a Gateway may lead to a cluster. Both are known here, as far as there are instances; a `KubernetesUpstream` belongs to
    /// none, and the grants of its namespace decide.
    pub(in super::super) fn permits(&self, gateway: &ObjectName, cluster: &str) -> bool {
        let gateway = MemberName::gateway(gateway.to_string());
        self.states.settled.separated(&gateway, &MemberName::cluster(cluster)).is_none()
    }

    /// The instance with settings of its own that a Gateway has, or a cluster; empty is none.
    pub(in super::super) fn settings_key(&self, gateway: &ObjectName) -> &str {
        self.key(self.instance_of(gateway))
    }

    /// The same of the instance that has a cluster, or is to have it.
    pub(in super::super) fn settings_key_of_cluster(&self, cluster: &str) -> &str {
        let owner = self.states.settled.owners.get(&MemberName::cluster(cluster));
        self.key(owner.map(Ownership::settled).and_then(|holder| holder.instance()))
    }

    fn key(&self, instance: Option<&str>) -> &str {
        let own = instance.and_then(|instance| self.own.get_key_value(instance));
        own.map_or("", |(instance, _)| instance)
    }

    /// The settings of such an instance.
    pub(in super::super) fn settings<'a>(&'a self, key: &str, shared: &'a Settings) -> &'a Settings {
        self.own.get(key).map_or(shared, AsRef::as_ref)
    }

    /// The instances with settings of their own, and none.
    pub(in super::super) fn keys(&self) -> impl Iterator<Item = &str> {
        std::iter::once("").chain(self.own.keys().map(String::as_str))
    }
}

#[cfg(test)]
impl GatewayDivision {
    /// A Gateway belongs to an instance whose settings are not known.
    pub(in super::super) fn without_settings(gateway: &ObjectName, instance: &str) -> Self {
        let owner = Ownership { holder: portcullis_instances::MemberHolder::Instance(instance.to_owned()), next: None };
        let mut states = InstanceStates::default();
        states.settled.owners.insert(MemberName::gateway(gateway.to_string()), owner);
        states.by_name.insert(instance.to_owned(), super::InstanceState::default());
        Self { states: Arc::new(states), ..Self::default() }
    }
}

//! The room for the filter's configurations at a Gateway, and at all of them: each is memory of the control plane and of each of its
//! Envoys, and those who make routes, policies, upstreams and Gateways are tenants. Their namespaces share it max-min: what one of them
//! wants takes nothing from another one within its fair share.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_attach::{Door, ObjectName, SharedRoom, sort_by_places};

/// In the place of a cluster's name: host names whose routes have no backend that can be used. No cluster has this name.
pub(crate) const UNRESOLVED: &str = "";

/// The most bytes of the filter's configurations at a Gateway: each listener has one for each cluster behind it.
pub(super) const MAX_CONFIG_BYTES: usize = 64 << 20;
/// The most bytes of configurations for routes of one namespace with policies of their own: each has one at each listener.
pub(super) const MAX_TIGHTENED_BYTES_OF_NAMESPACE: usize = 8 << 20;
/// The most of all such routes of a Gateway.
pub(super) const MAX_TIGHTENED_BYTES: usize = 32 << 20;
/// The most of the routes of one namespace at all Gateways.
pub(super) const MAX_BYTES_OF_NAMESPACE: usize = 64 << 20;
/// The most of all Gateways, those of all instances.
pub(super) const MAX_BYTES_IN_ALL: usize = 256 << 20;
/// Bytes of a configuration with policies of a route beside its text: Envoy's routes to one group of servers, and what the filter
/// compiles.
const TIGHTENED_BYTES: usize = 32 << 10;

/// A configuration: that of a cluster for the requests that come by some doors with policies, at a listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConfigKey {
    /// The listener's name.
    pub(crate) listener: String,
    /// The name of the cluster, or the key of the upstream; [`UNRESOLVED`] if there is none.
    pub(crate) cluster: String,
    /// The doors with policies, the widest first; none of the cluster's own configuration.
    pub(crate) doors: Vec<Door>,
    /// The namespace whose host names in it are wanted; `None` of all else, which several namespaces may want.
    pub(crate) hosts_of: Option<String>,
}

/// The configurations that a Gateway's routes want.
#[derive(Debug)]
pub(crate) struct ConfigRoom<'a> {
    /// Clusters' own, and those with policies of the Gateway and its listeners.
    clusters: SharedRoom<'a, ConfigKey>,
    /// Those with policies of routes, which take nothing from the others.
    routes: SharedRoom<'a, ConfigKey>,
}

/// The configurations that the routes of all Gateways want, which are written by tenants, too.
#[derive(Debug, Default)]
pub(crate) struct RoomOfAll<'a>(Vec<WantedOfAll<'a>>);

/// The Gateway, the configuration, the namespace of a route and bytes.
type WantedOfAll<'a> = (&'a ObjectName, &'a ConfigKey, &'a str, usize);

impl Default for ConfigRoom<'_> {
    fn default() -> Self {
        Self {
            clusters: SharedRoom::new(MAX_CONFIG_BYTES, MAX_CONFIG_BYTES),
            routes: SharedRoom::new(MAX_TIGHTENED_BYTES, MAX_TIGHTENED_BYTES_OF_NAMESPACE),
        }
    }
}

impl ConfigKey {
    /// That of the host names of a namespace's routes.
    pub(crate) fn of_hosts(&self, namespace: &str) -> Self {
        Self { hosts_of: Some(namespace.to_owned()), ..self.clone() }
    }

    /// That of the host names of a listener whose routes have no backend that can be used.
    pub(crate) fn of_unresolved(listener: &str) -> Self {
        Self { listener: listener.to_owned(), cluster: UNRESOLVED.to_owned(), doors: Vec::new(), hosts_of: None }
    }

    /// Bytes of room that it takes. `bytes` are those of its text, and `bytes_of_more_groups` those of Envoy's routes to all groups of
    /// servers but the first.
    pub(crate) fn room(&self, bytes: usize, bytes_of_more_groups: usize) -> usize {
        if !self.is_of_route() {
            return bytes;
        }
        [bytes, bytes_of_more_groups, TIGHTENED_BYTES].into_iter().fold(0, usize::saturating_add)
    }

    fn is_of_route(&self) -> bool {
        self.doors.iter().any(|door| matches!(door, Door::Route(_)))
    }
}

impl<'a> ConfigRoom<'a> {
    /// A route of a namespace wants a configuration of as many bytes as its [`ConfigKey::room`].
    pub(crate) fn want(&mut self, key: ConfigKey, namespace: &'a str, bytes: usize) {
        let room = if key.is_of_route() { &mut self.routes } else { &mut self.clusters };
        room.want(key, namespace, bytes);
    }

    /// Those for which there is no room.
    pub(crate) fn refused(self) -> BTreeSet<ConfigKey> {
        let mut refused = self.clusters.refused();
        refused.extend(self.routes.refused());
        refused
    }
}

impl<'a> RoomOfAll<'a> {
    /// A route of a namespace wants a configuration for which its Gateway has room, of as many bytes as it takes there.
    pub(crate) fn want(&mut self, gateway: &'a ObjectName, key: &'a ConfigKey, namespace: &'a str, bytes: usize) {
        self.0.push((gateway, key, namespace, bytes));
    }

    /// Those for which there is no room, by Gateway. Of a namespace those at Gateways with least come first, so that large policies of one
    /// Gateway take nothing from its routes at others.
    pub(crate) fn refused(mut self) -> BTreeMap<ObjectName, BTreeSet<ConfigKey>> {
        // Of equal ones the Gateways' names decide, and not which of them are translated together.
        self.0.sort_by_key(|(gateway, ..)| *gateway);
        sort_by_places(&mut self.0, |(gateway, _, namespace, bytes)| (*gateway, *namespace, *bytes));
        let mut room = SharedRoom::new(MAX_BYTES_IN_ALL, MAX_BYTES_OF_NAMESPACE);
        self.0.iter().for_each(|(gateway, key, namespace, bytes)| room.want((*gateway, *key), namespace, *bytes));
        let mut refused: BTreeMap<ObjectName, BTreeSet<ConfigKey>> = BTreeMap::new();
        for (gateway, key) in room.refused() {
            refused.entry(gateway.clone()).or_default().insert(key.clone());
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ConfigKey {
        ConfigKey { listener: "https".to_owned(), cluster: name.to_owned(), doors: Vec::new(), hosts_of: None }
    }

    fn of_route(namespace: &str, index: usize) -> ConfigKey {
        let route = ObjectName::new(namespace, index.to_string());
        ConfigKey { doors: vec![Door::Route(route)], ..key("c") }
    }

    fn want<'a>(room: &mut ConfigRoom<'a>, key: ConfigKey, namespace: &'a str, bytes: usize, of_groups: usize) {
        let bytes = key.room(bytes, of_groups);
        room.want(key, namespace, bytes);
    }

    #[test]
    fn routes_with_policies_have_room_of_their_own() {
        let mut room = ConfigRoom::default();
        (0..1_000).for_each(|index| want(&mut room, of_route("crowd", index), "crowd", 1, 0));
        (0..10).for_each(|index| want(&mut room, of_route("team", index), "team", 1 << 20, 0));
        (0..64).for_each(|index| want(&mut room, key(&index.to_string()), "team", 1 << 20, 1 << 20));
        let refused = room.refused();
        let of = |namespace: &str| refused.iter().filter(|key| key.doors[0].namespace() == namespace).count();
        assert_eq!((of("crowd"), of("team"), refused.len()), (1_000 - 255, 3, 748), "of 8 MiB with 32 KiB for each");
        let mut room = ConfigRoom::default();
        (0..65).for_each(|index| want(&mut room, key(&format!("{index:02}")), "team", 1 << 20, 0));
        assert_eq!(room.refused(), [key("64")].into());
    }

    /// Hosts are in the order of their names, and those of a stranger may be the first.
    #[test]
    fn namespace_within_its_share_keeps_all_whatever_others_want() {
        let mut room = ConfigRoom::default();
        for stranger in ["a", "b", "c", "d"] {
            (0..20).for_each(|index| want(&mut room, of_route(stranger, index), stranger, 2 << 20, 0));
            (0..20).for_each(|index| want(&mut room, key(&format!("{stranger}/{index}")), stranger, 2 << 20, 0));
        }
        (0..5).for_each(|index| want(&mut room, of_route("late", index), "late", 1 << 20, 0));
        (0..12).for_each(|index| want(&mut room, key(&format!("late/{index}")), "late", 1 << 20, 0));
        let refused = room.refused();
        let is_late = |key: &&ConfigKey| {
            key.cluster.starts_with("late") || key.doors.iter().any(|door| door.namespace() == "late")
        };
        assert_eq!(refused.iter().find(is_late), None);
    }
}

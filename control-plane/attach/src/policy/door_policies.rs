use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::PolicyInEffect;

use super::doors::Door;
use crate::name::ObjectName;

/// The policies at the doors of a Gateway and of its routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorPolicies {
    by_door: BTreeMap<Door, Arc<[PolicyInEffect]>>,
    /// Those that were removed and hold all the same.
    former: BTreeMap<Door, Arc<[FormerPolicy]>>,
    /// The namespaces of which not all policies are known.
    unread: BTreeSet<String>,
    /// Doors at which former policies may hold that are not known.
    closed: ClosedDoors,
}

/// `UpstreamClusters` of which an older version is served than one that may deny what a policy denied; none are all.
pub type WaitingClusters = Option<Arc<BTreeSet<String>>>;

/// Doors with more former policies than are kept, closed for requests to some `UpstreamClusters`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosedDoors {
    /// By door.
    pub doors: BTreeMap<Door, Vec<WaitingClusters>>,
    /// All doors of a namespace.
    pub namespaces: BTreeMap<String, WaitingClusters>,
}

/// A policy that was removed from a door, and holds there until an edit is served that may deny the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerPolicy {
    /// The policy.
    pub policy: PolicyInEffect,
    /// The `UpstreamClusters` for whose requests it holds.
    pub clusters: WaitingClusters,
}

fn holds_for(clusters: &WaitingClusters, cluster: &str) -> bool {
    clusters.as_ref().is_none_or(|clusters| clusters.contains(cluster))
}

impl DoorPolicies {
    /// Policies by their doors.
    pub fn new(policies: impl IntoIterator<Item = (Door, Vec<PolicyInEffect>)>) -> Self {
        let by_door = policies.into_iter().map(|(door, policies)| (door, policies.into())).collect();
        Self { by_door, ..Self::default() }
    }

    /// The same, where these namespaces have more policies than are known: whether one of those is at a door there is not.
    #[must_use]
    pub fn with_unread(self, namespaces: &BTreeSet<String>) -> Self {
        Self { unread: namespaces.clone(), ..self }
    }

    /// The same, with these that were removed, and doors of which not all of those are known.
    #[must_use]
    pub fn with_former(self, former: impl IntoIterator<Item = (Door, Vec<FormerPolicy>)>, closed: ClosedDoors) -> Self {
        let former = former.into_iter().map(|(door, policies)| (door, policies.into())).collect();
        Self { former, closed, ..self }
    }

    /// Whether a policy may hold for requests of a route at a listener to a cluster that is not known.
    pub fn are_unread(&self, gateway: &ObjectName, listener: &str, route: &ObjectName, cluster: &str) -> bool {
        let is_closed = |namespace: &String| {
            let former = self.closed.namespaces.get(namespace);
            self.unread.contains(namespace) || former.is_some_and(|clusters| holds_for(clusters, cluster))
        };
        let at_door = |door: &Door| self.closed.doors.get(door).into_iter().flatten();
        is_closed(&gateway.namespace)
            || is_closed(&route.namespace)
            || Door::all(gateway, listener, route).iter().flat_map(at_door).any(|clusters| holds_for(clusters, cluster))
    }

    /// Those at one door, without former ones.
    pub fn at(&self, door: &Door) -> &[PolicyInEffect] {
        self.by_door.get(door).map_or(&[], |policies| policies)
    }

    /// Those that hold at one door for requests to a cluster; without one for any.
    pub fn holding(&self, door: &Door, cluster: Option<&str>) -> impl Iterator<Item = &PolicyInEffect> {
        self.at(door).iter().chain(self.former_at(door, cluster))
    }

    fn former_at(&self, door: &Door, cluster: Option<&str>) -> impl Iterator<Item = &PolicyInEffect> {
        let former = self.former.get(door).into_iter().flat_map(|all| all.iter());
        former.filter(move |one| cluster.is_none_or(|of| holds_for(&one.clusters, of))).map(|one| &one.policy)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_door.is_empty() && self.former.is_empty()
    }

    /// All of them, without former ones.
    pub fn all(&self) -> impl Iterator<Item = (&Door, &[PolicyInEffect])> {
        self.by_door.iter().map(|(door, policies)| (door, &**policies))
    }

    /// The doors of a route at a listener with policies that hold for requests to a cluster, the widest first.
    pub fn doors(&self, gateway: &ObjectName, listener: &str, route: &ObjectName, cluster: &str) -> Vec<Door> {
        let has_any = |door: &Door| self.holding(door, Some(cluster)).next().is_some();
        Door::all(gateway, listener, route).into_iter().filter(has_any).collect()
    }

    /// Those at each of some doors, and behind all of these the former ones: no former version takes the room of a policy that holds.
    pub fn of_doors(&self, doors: &[Door], cluster: &str) -> Vec<Arc<[PolicyInEffect]>> {
        let former = doors.iter().flat_map(|door| self.former_at(door, Some(cluster)));
        let former: Arc<[PolicyInEffect]> = former.cloned().collect();
        let current = doors.iter().filter_map(|door| self.by_door.get(door)).cloned();
        current.chain((!former.is_empty()).then_some(former)).collect()
    }

    /// The part of a Gateway with these routes.
    pub(crate) fn of_gateway(&self, gateway: &ObjectName, routes: &BTreeSet<&ObjectName>) -> Self {
        let is_its = |door: &Door| match door {
            Door::Gateway(name) | Door::Listener(name, _) => name == gateway,
            Door::Route(name) => routes.contains(name),
        };
        let namespaces: BTreeSet<&String> =
            routes.iter().map(|route| &route.namespace).chain([&gateway.namespace]).collect();
        let closed = ClosedDoors {
            doors: part(&self.closed.doors, is_its),
            namespaces: part(&self.closed.namespaces, |namespace| namespaces.contains(namespace)),
        };
        Self {
            by_door: part(&self.by_door, is_its),
            former: part(&self.former, is_its),
            unread: self.unread.iter().filter(|namespace| namespaces.contains(namespace)).cloned().collect(),
            closed,
        }
    }
}

fn part<K: Clone + Ord, V: Clone>(all: &BTreeMap<K, V>, is_its: impl Fn(&K) -> bool) -> BTreeMap<K, V> {
    all.iter().filter(|(key, _)| is_its(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

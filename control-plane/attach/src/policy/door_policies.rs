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
}

/// A policy that was removed from a door, and holds there until an edit is served that may deny the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerPolicy {
    /// The policy.
    pub policy: PolicyInEffect,
    /// The `UpstreamClusters` for whose requests it holds; none are all.
    pub clusters: Option<BTreeSet<String>>,
}

impl FormerPolicy {
    fn holds_for(&self, cluster: Option<&str>) -> bool {
        let of = |cluster: &str| self.clusters.as_ref().is_none_or(|clusters| clusters.contains(cluster));
        cluster.is_none_or(of)
    }
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

    /// The same, with these that were removed.
    #[must_use]
    pub fn with_former(self, former: impl IntoIterator<Item = (Door, Vec<FormerPolicy>)>) -> Self {
        Self { former: former.into_iter().map(|(door, policies)| (door, policies.into())).collect(), ..self }
    }

    /// Whether a policy may hold for requests of a route at a Gateway that is not known.
    pub fn are_unread(&self, gateway: &ObjectName, route: &ObjectName) -> bool {
        [gateway, route].into_iter().any(|one| self.unread.contains(&one.namespace))
    }

    /// Those at one door, without former ones.
    pub fn at(&self, door: &Door) -> &[PolicyInEffect] {
        self.by_door.get(door).map_or(&[], |policies| policies)
    }

    /// Those that hold at one door for requests to a cluster; without one for any.
    pub fn holding(&self, door: &Door, cluster: Option<&str>) -> impl Iterator<Item = &PolicyInEffect> {
        let former = self.former.get(door).into_iter().flat_map(|all| all.iter());
        let former = former.filter(move |one| one.holds_for(cluster)).map(|one| &one.policy);
        self.at(door).iter().chain(former)
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

    /// Those at each of some doors.
    pub fn of_doors(&self, doors: &[Door], cluster: &str) -> Vec<Arc<[PolicyInEffect]>> {
        let of = |door: &Door| match (self.by_door.get(door), self.former.contains_key(door)) {
            (Some(policies), false) => Arc::clone(policies),
            _ => self.holding(door, Some(cluster)).cloned().collect(),
        };
        doors.iter().map(of).collect()
    }

    /// The part of a Gateway with these routes.
    pub(crate) fn of_gateway(&self, gateway: &ObjectName, routes: &BTreeSet<&ObjectName>) -> Self {
        let is_its = |door: &Door| match door {
            Door::Gateway(name) | Door::Listener(name, _) => name == gateway,
            Door::Route(name) => routes.contains(name),
        };
        let has_door = |namespace: &&String| {
            **namespace == gateway.namespace || routes.iter().any(|route| **namespace == route.namespace)
        };
        Self {
            by_door: part(&self.by_door, is_its),
            former: part(&self.former, is_its),
            unread: self.unread.iter().filter(has_door).cloned().collect(),
        }
    }
}

fn part<T: ?Sized>(all: &BTreeMap<Door, Arc<T>>, is_its: impl Fn(&Door) -> bool) -> BTreeMap<Door, Arc<T>> {
    let its = all.iter().filter(|(door, _)| is_its(door));
    its.map(|(door, policies)| (door.clone(), Arc::clone(policies))).collect()
}

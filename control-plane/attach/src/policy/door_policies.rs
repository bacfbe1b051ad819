use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, upstream_of_key};

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

    /// Whether a policy may hold for requests of a route at a listener to a cluster that is not known; of an upstream, by its key, that of
    /// its own namespace as well.
    pub fn are_unread(&self, gateway: &ObjectName, listener: &str, route: &ObjectName, cluster: &str) -> bool {
        let is_closed = |namespace: &String| {
            let former = self.closed.namespaces.get(namespace);
            self.unread.contains(namespace) || former.is_some_and(|clusters| holds_for(clusters, cluster))
        };
        let at_door = |door: &Door| self.closed.doors.get(door).into_iter().flatten();
        is_closed(&gateway.namespace)
            || is_closed(&route.namespace)
            || upstream_of_key(cluster).is_some_and(|(namespace, _)| self.unread.contains(namespace))
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

    /// The part of a Gateway with these routes, which lead to these clusters and upstreams.
    pub(crate) fn of_gateway(
        &self,
        gateway: &ObjectName,
        routes: &BTreeSet<&ObjectName>,
        clusters: &BTreeSet<&str>,
    ) -> Self {
        let namespaces: BTreeSet<&String> =
            routes.iter().map(|route| &route.namespace).chain([&gateway.namespace]).collect();
        let of_upstreams = clusters.iter().filter_map(|key| upstream_of_key(key)).map(|(namespace, _)| namespace);
        let may_be_unread = namespaces.iter().map(|one| one.as_str()).chain(of_upstreams);
        let of_namespaces = namespaces.iter().filter_map(|one| self.closed.namespaces.get_key_value(*one));
        let closed = ClosedDoors {
            doors: part(&self.closed.doors, gateway, routes),
            namespaces: of_namespaces.map(|(namespace, clusters)| (namespace.clone(), clusters.clone())).collect(),
        };
        Self {
            by_door: part(&self.by_door, gateway, routes),
            former: part(&self.former, gateway, routes),
            unread: may_be_unread.filter_map(|namespace| self.unread.get(namespace)).cloned().collect(),
            closed,
        }
    }
}

/// The part of a Gateway with these routes. There are as many of them as of doors in all, so that each looks for its own doors alone.
fn part<V: Clone>(all: &BTreeMap<Door, V>, gateway: &ObjectName, routes: &BTreeSet<&ObjectName>) -> BTreeMap<Door, V> {
    let of_gateway = all.get_key_value(&Door::Gateway(gateway.clone()));
    let first = Door::Listener(gateway.clone(), String::new());
    let is_its = |door: &Door| {
        #[cfg(test)]
        crate::tests::steps::count(crate::tests::steps::Step::Door);
        matches!(door, Door::Listener(name, _) if name == gateway)
    };
    let of_listeners = all.range(first..).take_while(|(door, _)| is_its(door));
    let of_route = |route: &&ObjectName| {
        #[cfg(test)]
        crate::tests::steps::count(crate::tests::steps::Step::Door);
        all.get_key_value(&Door::Route((*route).clone()))
    };
    let all = of_gateway.into_iter().chain(of_listeners).chain(routes.iter().filter_map(of_route));
    all.map(|(door, value)| (door.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use portcullis_api::{PolicyKind, PolicyRole};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tests::steps::{Step, steps};

    fn policy() -> PolicyInEffect {
        let (policy, why) = ("team/x".to_owned(), "overrides".to_owned());
        let fields = Ok(Arc::new(json!({})));
        PolicyInEffect { kind: PolicyKind::Dispatch, policy, uid: None, role: PolicyRole::Tightens, why, fields }
    }

    fn name(number: usize) -> ObjectName {
        ObjectName::new(["a", "b"][number % 2], format!("n{number}"))
    }

    fn door((kind, number): (usize, usize)) -> Door {
        match kind {
            0 => Door::Gateway(name(number)),
            1 => Door::Route(name(number)),
            other => Door::Listener(name(number), format!("l{other}")),
        }
    }

    /// Policies, former ones and closed doors at these.
    fn all(doors: [&[Door]; 3], namespaces: &BTreeSet<String>) -> DoorPolicies {
        let former = || FormerPolicy { policy: policy(), clusters: None };
        let closed = ClosedDoors {
            doors: doors[2].iter().map(|door| (door.clone(), vec![None])).collect(),
            namespaces: namespaces.iter().map(|namespace| (namespace.clone(), None)).collect(),
        };
        DoorPolicies::new(doors[0].iter().map(|door| (door.clone(), vec![policy()])))
            .with_unread(namespaces)
            .with_former(doors[1].iter().map(|door| (door.clone(), vec![former()])), closed)
    }

    #[test]
    fn gateway_looks_for_its_own_doors_alone() {
        let looks = |count: usize| {
            let doors: Vec<Door> = (0..count).flat_map(|number| (0..4).map(move |kind| door((kind, number)))).collect();
            let (all, routes) = (all([&doors, &doors, &doors], &BTreeSet::new()), [name(1), name(2)]);
            steps(Step::Door, || drop(all.of_gateway(&name(3), &routes.iter().collect(), &BTreeSet::new())))
        };
        assert_eq!(looks(200), looks(20));
    }

    proptest! {
        #[test]
        fn part_of_a_gateway_is_all_that_holds_there(
            doors in prop::array::uniform3(prop::collection::vec((0..5_usize, 0..5_usize).prop_map(door), 0..20)),
            gateway in (0..5_usize).prop_map(name),
            routes in prop::collection::btree_set((0..5_usize).prop_map(name), 0..4),
            unread in prop::collection::btree_set(prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned), 0..3),
        ) {
            let all = all([&doors[0], &doors[1], &doors[2]], &unread);
            let part = all.of_gateway(&gateway, &routes.iter().collect(), &["c/prod"].into());
            let is_its = |door: &Door| match door {
                Door::Gateway(name) | Door::Listener(name, _) => *name == gateway,
                Door::Route(name) => routes.contains(name),
            };
            let namespaces: BTreeSet<&String> =
                routes.iter().map(|route| &route.namespace).chain([&gateway.namespace]).collect();
            let DoorPolicies { by_door, former, unread, closed } = all;
            let is_of = |namespace: &String| namespaces.contains(namespace);
            let expected = DoorPolicies {
                by_door: by_door.into_iter().filter(|(door, _)| is_its(door)).collect(),
                former: former.into_iter().filter(|(door, _)| is_its(door)).collect(),
                unread: unread.into_iter().filter(|one| is_of(one) || one == "c").collect(),
                closed: ClosedDoors {
                    doors: closed.doors.into_iter().filter(|(door, _)| is_its(door)).collect(),
                    namespaces: closed.namespaces.into_iter().filter(|(one, _)| is_of(one)).collect(),
                },
            };
            prop_assert_eq!(part, expected);
        }
    }
}

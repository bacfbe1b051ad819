use std::collections::BTreeMap;

use portcullis_instances::{InstanceVerdict, JudgedInstance, MemberKind, MemberName, Settlement};
use portcullis_xds::ChangedNames;

use super::super::changed_keys::changed_keys;
use crate::spanning_policies::SpanningPolicies;

/// All instances at one time, and what belongs to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct InstanceStates {
    /// By name.
    pub(in super::super) by_name: BTreeMap<String, InstanceState>,
    /// The instances of each `UpstreamCluster` that belongs to one: its holder, then the next one.
    pub(in super::super) of_clusters: BTreeMap<String, Vec<String>>,
    /// The instance that holds each `UpstreamCluster` that passes over; none if Envoys of no instance have it still.
    pub(in super::super) passing: BTreeMap<String, Option<String>>,
    /// The owners of everything.
    pub(in super::super) settled: Settlement,
    /// Policies whose targets belong to several.
    pub(in super::super) spanning: SpanningPolicies,
}

/// One instance, without what its Envoys have acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct InstanceState {
    pub(in super::super) verdict: InstanceVerdict,
    /// Whether its Envoys are served.
    pub(in super::super) is_served: bool,
}

impl InstanceStates {
    /// Those of judged objects. Of several with one name the first counts, as for owners.
    pub(super) fn of(
        judged: &[JudgedInstance],
        settled: &Settlement,
        is_served: impl Fn(&str) -> bool,
        spanning: SpanningPolicies,
    ) -> Self {
        let mut by_name = BTreeMap::new();
        for one in judged.iter().filter(|one| !one.name.is_empty()) {
            by_name.entry(one.name.clone()).or_insert_with(|| InstanceState {
                verdict: InstanceVerdict::of(one, settled),
                is_served: is_served(&one.name),
            });
        }
        let of_cluster = || settled.owners.iter().filter(|(member, _)| member.kind == MemberKind::UpstreamCluster);
        let passing = of_cluster().filter(|(_, owner)| owner.next.is_some());
        let passing = passing.map(|(member, owner)| (member.name.clone(), owner.holder.instance().map(str::to_owned)));
        let of_clusters = of_cluster().filter_map(|(member, owner)| {
            let holders = std::iter::once(&owner.holder).chain(&owner.next);
            let instances: Vec<String> = holders.filter_map(|holder| Some(holder.instance()?.to_owned())).collect();
            (!instances.is_empty()).then(|| (member.name.clone(), instances))
        });
        let (of_clusters, passing) = (of_clusters.collect(), passing.collect());
        Self { by_name, of_clusters, passing, settled: settled.clone(), spanning }
    }

    /// The instance that an `UpstreamCluster` belongs to, or will at the end of a hand-over.
    pub(in super::super) fn settled_instance(&self, cluster: &str) -> Option<&str> {
        self.settled.owners.get(&MemberName::cluster(cluster.to_ascii_lowercase()))?.settled().instance()
    }

    /// Adds the names of instances that are otherwise than before, and of `UpstreamClusters` that belong to other ones.
    pub(in super::super) fn add_changed(&self, before: &Self, changed: &mut ChangedNames) {
        changed_keys(&before.by_name, &self.by_name).into_iter().for_each(|name| changed.add(name.as_str()));
        changed_keys(&before.of_clusters, &self.of_clusters).into_iter().for_each(|name| changed.add(name.as_str()));
        changed_keys(&before.passing, &self.passing).into_iter().for_each(|name| changed.add(name.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use portcullis_instances::{MemberHolder, MemberName, Ownership};

    use super::*;

    fn states(holder: MemberHolder, next: Option<MemberHolder>) -> InstanceStates {
        let name = MemberName { kind: MemberKind::UpstreamCluster, name: "c.test".to_owned() };
        let owners = [(name, Ownership { holder, next })].into();
        let settled = Settlement { owners, ..Settlement::default() };
        InstanceStates::of(&[], &settled, |_| true, SpanningPolicies::default())
    }

    #[test]
    fn cluster_on_its_way_has_its_holder_and_is_changed_at_the_end() {
        let (free, a) = (|| MemberHolder::Free, || MemberHolder::Instance("a".to_owned()));
        let b = || MemberHolder::Instance("b".to_owned());
        for (holder, next, held_by) in [(free(), a(), None), (a(), free(), Some("a")), (a(), b(), Some("a"))] {
            let (before, after) = (states(holder, Some(next.clone())), states(next, None));
            assert_eq!(before.passing.get("c.test").map(Option::as_deref), Some(held_by));
            assert!(after.passing.is_empty());
            let mut changed = ChangedNames::default();
            after.add_changed(&before, &mut changed);
            assert!(!changed.is_empty(), "{before:?}");
        }
    }
}

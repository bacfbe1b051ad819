use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::PolicyKind;
use portcullis_attach::{AttachedPolicies, DoorPolicies, PolicyObject, affected, policy_ancestors};
use portcullis_sources::{ObjectKey, SetNumber, StoredStatuses, WatchedKind};
use serde_json::{Value, json};

/// Verdicts about all policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct PolicyVerdicts {
    /// Whether they are of a list.
    is_judged: bool,
    attached: AttachedPolicies,
    /// The number of the policies at doors, another one whenever they are other ones.
    doors_number: u64,
    /// `metadata.uid` of the policies that were judged.
    uids: BTreeMap<ObjectKey, String>,
    /// The number of the set of objects with the policies that are at no door.
    pub(super) of: SetNumber,
}

impl PolicyVerdicts {
    pub(super) fn new((attached, doors_number): (AttachedPolicies, u64), policies: &[Arc<PolicyObject>]) -> Self {
        let uid = |policy: &Arc<PolicyObject>| {
            let name = policy.name();
            let key = ObjectKey { kind: WatchedKind::Policy(policy.kind), namespace: name.namespace, name: name.name };
            Some((key, policy.uid.clone()?))
        };
        Self {
            is_judged: true,
            attached,
            doors_number,
            uids: policies.iter().filter_map(uid).collect(),
            of: SetNumber::default(),
        }
    }

    /// The reasons of `Accepted`, in the order of the verdicts.
    #[cfg(test)]
    pub(super) fn reasons(&self) -> Vec<&'static str> {
        let ancestors = self.attached.verdicts.iter().flat_map(|verdict| &verdict.ancestors);
        ancestors.flat_map(|ancestor| &ancestor.conditions).map(|one| one.reason).collect()
    }

    /// The wanted status of each policy that has one of this controller, by `now` in RFC 3339. A policy that took the place of a
    /// judged one has none.
    pub(in super::super) fn statuses<'a>(
        &'a self,
        stored: &'a StoredStatuses,
        now: &'a str,
    ) -> impl Iterator<Item = (ObjectKey, Value)> + 'a {
        self.attached.verdicts.iter().filter_map(move |verdict| {
            let (namespace, name) = (verdict.name.namespace.clone(), verdict.name.name.clone());
            let key = ObjectKey { kind: WatchedKind::Policy(verdict.kind), namespace, name };
            let stored = stored.get(&key).filter(|stored| stored.uid.as_ref() == self.uids.get(&key))?;
            let before = stored.status.get("ancestors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let written = policy_ancestors(before, verdict, stored.generation, now);
            Some((key, json!({"ancestors": written.ancestors})))
        })
    }

    /// The number of the policies at doors.
    pub(in super::super) fn doors_number(&self) -> u64 {
        self.doors_number
    }

    /// The policies at Gateways, listeners and `HTTPRoutes`, and the number of the set that has those of clusters; none before policies
    /// are listed.
    pub(in super::super) fn at_doors(&self) -> Option<(&DoorPolicies, SetNumber)> {
        self.is_judged.then_some((&self.attached.at_doors, self.of))
    }

    /// The kinds of policies that affect an `UpstreamCluster`, each with the message of its condition.
    pub(in super::super) fn affecting(&self, cluster: &str) -> Vec<(PolicyKind, String)> {
        let conditions = self.attached.in_effect.get(cluster).map(affected).unwrap_or_default();
        let kind = |of: &str| PolicyKind::ALL.into_iter().find(|kind| kind.affected() == of);
        conditions.into_iter().filter_map(|one| Some((kind(one.kind)?, one.message))).collect()
    }
}

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::PolicyKind;
#[cfg(test)]
use portcullis_api::{PolicyInEffect, PolicyRole};
use portcullis_attach::{AttachedPolicies, DoorPolicies, PolicyObject, UpstreamPolicies, affected, policy_ancestors};
use portcullis_sources::{ObjectKey, SetNumber, StoredStatuses, WatchedKind};
use portcullis_xds::ChangedNames;
use serde_json::{Value, json};

use super::super::changed_keys::changed_keys;
use super::super::metrics::GatewayApiCounts;

/// Verdicts about all policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct PolicyVerdicts {
    /// Whether they are of a list.
    is_judged: bool,
    attached: AttachedPolicies,
    /// Those of `KubernetesUpstreams`.
    at_upstreams: Arc<UpstreamPolicies>,
    /// The number of the policies at doors, another one whenever they are other ones.
    doors_number: u64,
    /// Policies that moved from a cluster to a door and cannot hold there until the door has them, with a message.
    left_out: BTreeMap<String, Vec<(PolicyKind, String)>>,
    /// `metadata.uid` of the policies that were judged.
    uids: BTreeMap<ObjectKey, String>,
    /// The number of the set of objects with the policies that are at no door.
    pub(super) of: SetNumber,
}

impl PolicyVerdicts {
    pub(super) fn new(mut attached: AttachedPolicies, doors_number: u64, policies: &[Arc<PolicyObject>]) -> Self {
        let uid = |policy: &Arc<PolicyObject>| {
            let name = policy.name();
            let key = ObjectKey { kind: WatchedKind::Policy(policy.kind), namespace: name.namespace, name: name.name };
            Some((key, policy.uid.clone()?))
        };
        Self {
            is_judged: true,
            at_upstreams: Arc::new(std::mem::take(&mut attached.at_upstreams)),
            attached,
            doors_number,
            left_out: BTreeMap::new(),
            uids: policies.iter().filter_map(uid).collect(),
            of: SetNumber::default(),
        }
    }

    /// The same, with those that cannot hold at their cluster until a door has them.
    pub(super) fn with_left_out(self, left_out: BTreeMap<String, Vec<(PolicyKind, String)>>) -> Self {
        Self { left_out, ..self }
    }

    /// Policies that are refused, in effect on these clusters, each for a reason.
    #[cfg(test)]
    pub(in super::super) fn on_clusters(all: &[(String, String)]) -> Self {
        let policy = |why: &String| PolicyInEffect {
            kind: PolicyKind::Dispatch,
            policy: "home/one".to_owned(),
            uid: None,
            role: PolicyRole::Decides,
            why: why.clone(),
            fields: Err("refused".to_owned()),
        };
        let in_effect = all.iter().map(|(name, why)| (name.clone(), vec![policy(why)])).collect();
        Self { attached: AttachedPolicies { in_effect, ..AttachedPolicies::default() }, ..Self::default() }
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

    /// The counts of the policies with a target of this controller's.
    pub(in super::super) fn counts(&self) -> GatewayApiCounts {
        let mut counts = GatewayApiCounts::default();
        for verdict in self.attached.verdicts.iter().filter(|verdict| !verdict.ancestors.is_empty()) {
            let conditions = verdict.ancestors.iter().flat_map(|ancestor| &ancestor.conditions);
            counts.add(WatchedKind::Policy(verdict.kind), conditions);
        }
        counts
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

    /// The policies of `KubernetesUpstreams`.
    pub(in super::super) fn at_upstreams(&self) -> Arc<UpstreamPolicies> {
        Arc::clone(&self.at_upstreams)
    }

    /// Adds the names of `UpstreamClusters` on which other policies are in effect than before, or left out.
    pub(in super::super) fn add_changed(&self, before: &Self, changed: &mut ChangedNames) {
        let in_effect = changed_keys(&before.attached.in_effect, &self.attached.in_effect);
        let left_out = changed_keys(&before.left_out, &self.left_out);
        in_effect.into_iter().chain(left_out).for_each(|name| changed.add(name.as_str()));
    }

    /// The kinds of policies that affect an `UpstreamCluster`, each with the message of its condition.
    pub(in super::super) fn affecting(&self, cluster: &str) -> Vec<(PolicyKind, String)> {
        let conditions = self.attached.in_effect.get(cluster).map(affected).unwrap_or_default();
        let left_out = || self.left_out.get(cluster).into_iter().flatten();
        let of_kind = |kind: PolicyKind| {
            let in_effect = conditions.iter().filter(|one| one.kind == kind.affected()).map(|one| one.message.as_str());
            let out = left_out().filter(|(of, _)| *of == kind).map(|(_, message)| message.as_str());
            let told: Vec<&str> = in_effect.chain(out).collect();
            (!told.is_empty()).then(|| (kind, told.join("; ")))
        };
        PolicyKind::ALL.into_iter().filter_map(of_kind).collect()
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole, with_policies};
use portcullis_attach::{AttachedPolicies, DoorPolicies, behind_doors};
use serde_json::Value;

/// Policies that moved from an `UpstreamCluster` to a door: each holds at the cluster until the door has it, so that there is no moment
/// at which neither denies.
#[derive(Default)]
pub(super) struct FormerParts {
    /// The policies at doors of the last step, and their number: another one whenever they are other ones.
    doors: DoorPolicies,
    number: u64,
    /// The policies that tightened clusters in the last step.
    last: BTreeMap<String, Vec<PolicyInEffect>>,
    /// Those that hold all the same, with the number of the policies at doors among which they are.
    moved: BTreeMap<String, Vec<(PolicyInEffect, u64)>>,
}

/// A policy, whatever its fields are.
type PolicyKey = (PolicyKind, String, Option<String>);

impl FormerParts {
    /// Adds the policies that hold all the same to those in effect. `served` is the number of the policies at doors that are served.
    /// Returns that of the newest ones.
    pub(super) fn follow(
        &mut self,
        attached: &mut AttachedPolicies,
        clusters: &BTreeMap<String, Arc<Value>>,
        served: u64,
    ) -> u64 {
        if self.doors != attached.at_doors {
            self.doors = attached.at_doors.clone();
            self.number = self.number.saturating_add(1);
        }
        let at_doors: BTreeSet<PolicyKey> = self.doors.all().flat_map(|(_, policies)| policies).map(key).collect();
        let newest = tightening(attached);
        let last = std::mem::replace(&mut self.last, newest);
        for (cluster, policies) in last {
            let moved = policies.into_iter().filter(|one| at_doors.contains(&key(one)));
            self.moved.entry(cluster).or_default().extend(moved.map(|one| (one, self.number)));
        }
        for (cluster, moved) in &mut self.moved {
            let here: BTreeSet<PolicyKey> = self.last.get(cluster).into_iter().flatten().map(key).collect();
            let mut known = BTreeSet::new();
            moved.retain(|(policy, number)| {
                let key = key(policy);
                let holds = *number > served && at_doors.contains(&key) && !here.contains(&key);
                // The first version is what doors may lack.
                holds && known.insert(key)
            });
        }
        self.moved.retain(|cluster, moved| !moved.is_empty() && clusters.contains_key(cluster));
        for (cluster, moved) in &self.moved {
            let Some(own) = clusters.get(cluster) else { continue };
            let in_effect = attached.in_effect.entry(cluster.clone()).or_default();
            for (policy, _) in moved {
                // Nothing of another namespace holds up the owner's edits.
                let (_, unfit) = behind_doors(&with_policies(own, in_effect), cluster, [policy]);
                if unfit.is_empty() {
                    let why = format!("{}; it moved to a door, and holds here until that has it", policy.why);
                    in_effect.push(PolicyInEffect { why, ..policy.clone() });
                }
            }
        }
        self.number
    }

    /// Whether some hold all the same.
    pub(super) fn has_any(&self) -> bool {
        !self.moved.is_empty()
    }
}

fn key(policy: &PolicyInEffect) -> PolicyKey {
    (policy.kind, policy.policy.clone(), policy.uid.clone())
}

fn tightening(attached: &AttachedPolicies) -> BTreeMap<String, Vec<PolicyInEffect>> {
    let of = |(cluster, policies): (&String, &Vec<PolicyInEffect>)| {
        let tightening: Vec<_> =
            policies.iter().filter(|policy| policy.role == PolicyRole::Tightens).cloned().collect();
        (!tightening.is_empty()).then(|| (cluster.clone(), tightening))
    };
    attached.in_effect.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use portcullis_api::{check_cluster, parse_cluster};
    use portcullis_attach::{Door, ObjectName};
    use serde_json::json;

    use super::*;

    const NAME: &str = "a.test";

    fn cluster() -> BTreeMap<String, Arc<Value>> {
        let document = json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": NAME},
            "spec": {
                "servers": [{"endpoint": "https://10.0.0.1"}], "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
                "dispatchPolicies": [{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}],
            },
        });
        [(NAME.to_owned(), Arc::new(document))].into()
    }

    fn denies(path: &str) -> PolicyInEffect {
        let rules = json!([{"verbs": ["*"], "nonResourceURLs": [path]}]);
        let fields = json!({"dispatchPolicies": [{"rules": rules, "portcullis": {"action": "Deny"}}]});
        PolicyInEffect {
            kind: PolicyKind::Dispatch,
            policy: "team/x".to_owned(),
            uid: None,
            role: PolicyRole::Tightens,
            why: "overrides".to_owned(),
            fields: Ok(Arc::new(fields)),
        }
    }

    /// The policy of a path at the cluster, and of another one at a door.
    fn attached(at_cluster: &[&str], at_door: &[&str]) -> AttachedPolicies {
        let of = |paths: &[&str]| paths.iter().map(|path| denies(path)).collect::<Vec<_>>();
        let door = Door::Route(ObjectName::new("team", "r"));
        let at_doors = DoorPolicies::new((!at_door.is_empty()).then(|| (door, of(at_door))));
        let in_effect = (!at_cluster.is_empty()).then(|| (NAME.to_owned(), of(at_cluster)));
        AttachedPolicies { in_effect: in_effect.into_iter().collect(), at_doors, ..AttachedPolicies::default() }
    }

    /// The paths that the cluster denies.
    fn denied(attached: &AttachedPolicies) -> Vec<String> {
        let document = with_policies(&cluster()[NAME], attached.in_effect.get(NAME).map_or(&[][..], Vec::as_slice));
        let checked = check_cluster(&parse_cluster(&document).unwrap(), true).outcome.unwrap();
        let denials = checked.policies.iter().filter(|policy| policy.deny.is_some());
        denials.flat_map(|policy| policy.rules[0].non_resource_urls.clone()).collect()
    }

    #[test]
    fn policy_stays_at_its_cluster_until_the_door_has_it() {
        let mut parts = FormerParts::default();
        let mut at = |at_cluster: &[&str], at_door: &[&str], served: u64| {
            let mut attached = attached(at_cluster, at_door);
            let number = parts.follow(&mut attached, &cluster(), served);
            (denied(&attached), number)
        };
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        assert_eq!(at(&["/a"], &[], 0), (paths(&["/a"]), 0));
        assert_eq!(at(&[], &["/b"], 0), (paths(&["/a"]), 1), "edited and moved");
        assert_eq!(at(&[], &["/c"], 0), (paths(&["/a"]), 2), "edited again before");
        assert_eq!(at(&[], &["/c"], 1), (paths(&[]), 2), "one that it moved to is served");
        assert_eq!(at(&["/d"], &[], 2), (paths(&["/d"]), 3), "it moves back");
        assert_eq!(at(&[], &[], 3), (paths(&[]), 3), "one that is deleted leaves nothing");
    }

    #[test]
    fn target_that_is_left_out_beside_a_door_ends_at_once() {
        let mut parts = FormerParts::default();
        parts.follow(&mut attached(&["/a"], &["/a"]), &cluster(), 0);
        let mut newer = attached(&[], &["/a"]);
        assert_eq!(parts.follow(&mut newer, &cluster(), 1), 1);
        assert!(denied(&newer).is_empty() && !parts.has_any(), "the door has it");
        parts.follow(&mut attached(&["/a"], &["/a"]), &cluster(), 1);
        let gone = BTreeMap::new();
        parts.follow(&mut attached(&[], &["/b"]), &gone, 1);
        assert!(!parts.has_any(), "there is no such cluster");
    }
}

use std::collections::BTreeMap;

use portcullis_api::{CLUSTER_KIND, PolicyKind, PolicyRole};

use super::{AncestorVerdict, AttachedPolicies, Door};
use crate::condition::{ConditionVerdict, Rejection};

/// The reason of `Accepted`.
const REASON: &str = "SpansInstances";
/// Said of a policy that tightens.
const TIGHTENS: &str = "what it takes away holds there all the same";

impl AttachedPolicies {
    /// Refuses policies whose targets belong to several instances, by kind and name, each with the reason: at the targets where they are
    /// in effect. These are what they were, so that no moment is without protection: the caller refuses clusters where such a
    /// policy decides.
    pub fn refuse_spanning(&mut self, spanning: &BTreeMap<(PolicyKind, String), String>) {
        let in_effect = &self.in_effect;
        for verdict in &mut self.verdicts {
            let policy = verdict.name.to_string();
            let Some(why) = spanning.get(&(verdict.kind, policy.clone())) else { continue };
            let of_clusters = verdict.ancestors.iter_mut().filter(|one| one.target.kind == CLUSTER_KIND);
            for ancestor in of_clusters.filter(|ancestor| is_accepted(ancestor)) {
                let cluster = &ancestor.target.name;
                let mut here = in_effect.get(cluster).into_iter().flatten();
                let Some(found) = here.find(|one| one.kind == verdict.kind && one.policy == policy) else { continue };
                let rest = match found.role {
                    PolicyRole::Decides => format!(
                        "UpstreamCluster {cluster} is refused with it, and what was accepted last stays in use until the control plane restarts"
                    ),
                    PolicyRole::Tightens => TIGHTENS.to_owned(),
                };
                refuse(ancestor, &format!("{why}; {rest}"));
            }
        }
    }

    /// The same of policies whose targets belong to several instances with those at doors, which are refused there. They hold as they
    /// did: a policy at a door only takes away.
    pub fn refuse_spanning_at_doors(&mut self, spanning: &BTreeMap<(PolicyKind, String), String>) {
        for verdict in &mut self.verdicts {
            let policy = verdict.name.to_string();
            let Some(why) = spanning.get(&(verdict.kind, policy.clone())) else { continue };
            for ancestor in verdict.ancestors.iter_mut().filter(|ancestor| is_accepted(ancestor)) {
                let door = Door::of(&ancestor.target, &verdict.name.namespace);
                let is_here = |door: &Door| {
                    self.at_doors.at(door).iter().any(|one| one.kind == verdict.kind && one.policy == policy)
                };
                if door.is_some_and(|door| is_here(&door)) {
                    refuse(ancestor, &format!("{why}; {TIGHTENS}"));
                }
            }
        }
    }
}

fn refuse(ancestor: &mut AncestorVerdict, why: &str) {
    ancestor.conditions = vec![ConditionVerdict::fails("Accepted", &Rejection::new(REASON, why.to_owned()))];
}

fn is_accepted(ancestor: &AncestorVerdict) -> bool {
    ancestor.conditions.iter().any(|one| one.kind == "Accepted" && one.status)
}

use std::collections::BTreeMap;

use portcullis_api::{PolicyKind, PolicyRole};

use super::{AncestorVerdict, AttachedPolicies};
use crate::condition::{ConditionVerdict, Rejection};

/// The reason of `Accepted`.
const REASON: &str = "SpansInstances";

impl AttachedPolicies {
    /// Refuses policies whose targets belong to several instances, by kind and name, each with the reason: at the targets where they are
    /// in effect. These are what they were, so that no moment is without protection: the caller refuses clusters where such a
    /// policy decides.
    pub fn refuse_spanning(&mut self, spanning: &BTreeMap<(PolicyKind, String), String>) {
        let in_effect = &self.in_effect;
        for verdict in &mut self.verdicts {
            let policy = verdict.name.to_string();
            let Some(why) = spanning.get(&(verdict.kind, policy.clone())) else { continue };
            for ancestor in verdict.ancestors.iter_mut().filter(|ancestor| is_accepted(ancestor)) {
                let cluster = &ancestor.target.name;
                let mut here = in_effect.get(cluster).into_iter().flatten();
                let Some(found) = here.find(|one| one.kind == verdict.kind && one.policy == policy) else { continue };
                let rest = match found.role {
                    PolicyRole::Decides => format!(
                        "UpstreamCluster {cluster} is refused with it, and what was accepted last stays in use until the control plane restarts"
                    ),
                    PolicyRole::Tightens => "what it takes away holds there all the same".to_owned(),
                };
                let rejection = Rejection::new(REASON, format!("{why}; {rest}"));
                ancestor.conditions = vec![ConditionVerdict::fails("Accepted", &rejection)];
            }
        }
    }
}

fn is_accepted(ancestor: &AncestorVerdict) -> bool {
    ancestor.conditions.iter().any(|one| one.kind == "Accepted" && one.status)
}

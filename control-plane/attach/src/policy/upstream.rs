//! The policies of one `KubernetesUpstream`, which all decide: they are of its own namespace, and it has no such fields itself.

use std::sync::Arc;

use portcullis_api::{
    PolicyInEffect, PolicyRole, Problem, assumed_material, check_upstream, check_upstream_policy, parse_upstream,
    upstream_rules,
};
use serde_json::Value;

use super::parts::{PartHolders, Settled, blamed, in_effect};
use super::{PolicyObject, PolicyOutcome};
use crate::condition::Rejection;
use crate::name::ObjectName;

/// `own` is the upstream's document; none if it is not there. A policy with a mistake is in effect: the upstream is refused with it, and
/// requests of its routes get 500, as after a wrong edit of the upstream itself.
pub(super) fn settle(policies: &PartHolders<'_>, name: &ObjectName, own: Option<&Arc<Value>>) -> Settled {
    let mut settled = Settled::default();
    settled.in_effect.extend(policies.of(PolicyRole::Decides).map(|(_, policy)| effective(policy)));
    let rules = upstream_rules(&settled.in_effect);
    let refused = own.map(|own| refusals(own, &rules)).unwrap_or_default();
    let own_is_good = !refused.is_empty() && own.is_some_and(|own| refusals(own, &upstream_rules(&[])).is_empty());
    for (part, policy) in policies.of(PolicyRole::Decides) {
        let why = effective(policy).fields.err().or_else(|| blamed(&refused, policy, Some(&rules), own_is_good));
        let outcome = match why {
            Some(why) => PolicyOutcome::Refused(Rejection::new(
                "Invalid",
                format!("{why}; KubernetesUpstream {name} is refused with it, and requests of its routes get 500"),
            )),
            None => PolicyOutcome::Effective(format!("it decides: {}", reason(policy))),
        };
        settled.outcomes.insert(part, outcome);
    }
    settled
}

fn effective(policy: &PolicyObject) -> PolicyInEffect {
    let in_effect = in_effect(policy, PolicyRole::Decides, reason(policy));
    let fields = in_effect.fields.and_then(|fields| match check_upstream_policy(policy.kind, &fields) {
        Ok(()) => Ok(fields),
        Err(error) => Err(format!("spec.{}: {error}", policy.strategy.as_str())),
    });
    PolicyInEffect { fields, ..in_effect }
}

fn reason(policy: &PolicyObject) -> String {
    format!("{} of the object's own namespace, the first by creation time and name", policy.strategy.as_str())
}

/// Why the upstream would be refused. The contents of its references are not known here.
fn refusals(document: &Value, rules: &Value) -> Vec<Problem> {
    let refused = |raw| check_upstream(&raw, &assumed_material(&raw), rules, true).outcome.err().unwrap_or_default();
    parse_upstream(document).map_or_else(|problems| problems, refused)
}

use super::Findings;
use crate::attached::{FieldOrigin, PolicyRole, explain_origins, origins_of};
use crate::kind::PolicyKind;
use crate::types::{ShadowSpec, UpstreamCluster};

/// Names the policies of which fields are, warns of own fields that one drops and of parts of a shadow that are compared with one, and
/// refuses the object for one that cannot be used.
pub(super) fn check_origins(raw: &UpstreamCluster, findings: &mut Findings) {
    let origins = origins_of(raw);
    explain_origins(&origins, &mut findings.problems);
    explain_origins(&origins, &mut findings.warnings);
    let shadow = &raw.spec.portcullis.shadow;
    for FieldOrigin { kind, policy, role, refusal, dropped, .. } in origins {
        if let Some(part) = part_of(shadow, kind).filter(|_| role == PolicyRole::Decides) {
            findings.warning(
                format!("spec.portcullis.shadow.{part}"),
                format!("is compared with {kind} {policy}, which decides here, and not with the object's own fields"),
            );
        }
        for path in dropped {
            findings.warning(path, format!("has no effect: {kind} {policy} is in its place and has no such field"));
        }
        if let Some(refusal) = refusal {
            findings.problem("", format!("{kind} {policy}, which is attached to it, cannot be used: {refusal}"));
        }
    }
}

/// The part of a shadow that is an alternative to the fields of policies of a kind.
fn part_of(shadow: &ShadowSpec, kind: PolicyKind) -> Option<&'static str> {
    match kind {
        PolicyKind::Dispatch => shadow.dispatch_policies.is_some().then_some("dispatchPolicies"),
        PolicyKind::FlowControl => shadow.flow_control.is_some().then_some("flowControl"),
        PolicyKind::UpstreamIdentity => None,
    }
}

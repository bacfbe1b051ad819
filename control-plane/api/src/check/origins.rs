use super::Findings;
use crate::attached::{FieldOrigin, explain_origins, origins_of};
use crate::types::UpstreamCluster;

/// Names the policies of which fields are, warns of own fields that one drops, and refuses the object for one that cannot be used.
pub(super) fn check_origins(raw: &UpstreamCluster, findings: &mut Findings) {
    let origins = origins_of(raw);
    explain_origins(&origins, &mut findings.problems);
    explain_origins(&origins, &mut findings.warnings);
    for FieldOrigin { kind, policy, refusal, dropped, .. } in origins {
        for path in dropped {
            findings.warning(path, format!("has no effect: {kind} {policy} is in its place and has no such field"));
        }
        if let Some(refusal) = refusal {
            findings.problem("", format!("{kind} {policy}, which is attached to it, cannot be used: {refusal}"));
        }
    }
}

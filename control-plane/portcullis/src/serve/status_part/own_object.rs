use std::sync::Arc;

use portcullis_api::Problem;
use portcullis_api::status::{ClusterStatus, Condition, ConditionType, State, StatusInput};
use portcullis_translate::Diagnosis;

use super::is_node_of;
use crate::serve::object_status::ObjectStatus;

/// The text in the place of one in which others may have a part.
const ELSEWHERE: &str = "the status of the UpstreamCluster has the message: it may name objects and Envoys of others";
/// The reason and the text of a condition that Envoys of two owners decide.
const PASSES_OVER: &str = "PassesOver";
const PASSING: &str = "it passes over to another owner, whose Envoys have it, too";
/// Most problems, and most warnings, that are listed.
const MAX_PROBLEMS: usize = 100;

/// Whether all Envoys that a status of an object of these instances is about are those of one instance. Names of Gateways are others'.
pub(in super::super) fn is_of_own_envoys(seen: &StatusInput<'_>, instances: &[String]) -> bool {
    let [instance] = instances else { return false };
    let mut nodes = seen.gateways.iter().map(|one| one.name);
    let mut local = seen.limits.iter().flat_map(|facts| &facts.local_names).map(String::as_str);
    let is_own = |node: &str| is_node_of(node, instance);
    seen.at_gateways.is_empty() && nodes.all(is_own) && local.all(is_own)
}

/// The view of an instance's tenant.
pub(super) struct TenantView<'a> {
    pub(super) instance: &'a str,
    /// Whether an Envoy of the instance refuses a resource of all its objects, such as the listener. Its message may quote host names of
    /// others, which a listener has to close, and is that of each object then.
    pub(super) refuses_shared: bool,
}

impl TenantView<'_> {
    /// An `UpstreamCluster` that the instance holds, as its tenant may see it.
    pub(super) fn own_object(&self, object: &ObjectStatus) -> ObjectStatus {
        let diagnosis = own_diagnosis(&object.diagnosis);
        let status = self.own_status(object, &diagnosis);
        let instances = vec![self.instance.to_owned()];
        ObjectStatus { instances, ..ObjectStatus::new(Arc::new(diagnosis), status) }
    }

    fn own_status(&self, object: &ObjectStatus, diagnosis: &Diagnosis) -> ClusterStatus {
        let mut status = object.status.clone();
        // While it passes over, the status names the next owner.
        status.instance = Some(self.instance.to_owned());
        for condition in &mut status.conditions {
            self.limit(condition, object, diagnosis);
        }
        status.gateways.retain(|gateway| is_node_of(&gateway.name, self.instance));
        for message in status.gateways.iter_mut().filter_map(|gateway| gateway.message.as_mut()) {
            if self.refuses_shared {
                ELSEWHERE.clone_into(message);
            }
        }
        if !object.is_of_own_envoys {
            status.more_gateways = 0;
        }
        status
    }

    /// Leaves in a condition what is the object's own.
    fn limit(&self, condition: &mut Condition, object: &ObjectStatus, diagnosis: &Diagnosis) {
        match condition.kind {
            ConditionType::Accepted => condition.message = accepted_message(diagnosis),
            // They are about the object's own references.
            ConditionType::ServersDiscovered | ConditionType::TokenKeysCurrent => {}
            kind if object.holder.is_passing && is_of_envoys(kind) => {
                condition.status = State::Unknown;
                PASSES_OVER.clone_into(&mut condition.reason);
                PASSING.clone_into(&mut condition.message);
            }
            ConditionType::Programmed if object.is_of_own_envoys && !self.refuses_shared => {}
            ConditionType::Ready | ConditionType::LimitsShared if object.is_of_own_envoys => {}
            // Counts of a shadow may be those of a former owner's Envoys for a moment.
            _ => ELSEWHERE.clone_into(&mut condition.message),
        }
    }
}

/// A diagnosis with each problem by its field and subject: the text of one may name the owner of a host name, or a policy.
fn own_diagnosis(diagnosis: &Diagnosis) -> Diagnosis {
    Diagnosis {
        kind: diagnosis.kind.clone(),
        name: diagnosis.name.clone(),
        at: None,
        accepted: diagnosis.accepted,
        reason: diagnosis.reason,
        message: outlines(&diagnosis.problems).join("; "),
        warnings: outlines(&diagnosis.cautions),
        problems: Vec::new(),
        cautions: Vec::new(),
        names: Vec::new(),
        shadow: None,
        version: diagnosis.version.clone(),
    }
}

fn outlines(problems: &[Problem]) -> Vec<String> {
    let mut outlines: Vec<String> = problems.iter().take(MAX_PROBLEMS).map(Problem::outline).collect();
    outlines
        .extend(problems.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0).map(|more| format!("{more} more")));
    outlines
}

/// As the condition `Accepted` has it.
fn accepted_message(diagnosis: &Diagnosis) -> String {
    let message = Some(diagnosis.message.clone()).filter(|message| !message.is_empty());
    let warnings = diagnosis.warnings.iter().map(|warning| format!("warning: {warning}"));
    message.into_iter().chain(warnings).collect::<Vec<_>>().join("; ")
}

/// Whether Envoys decide about a condition.
fn is_of_envoys(kind: ConditionType) -> bool {
    use ConditionType::{LimitsShared, Programmed, Ready, ShadowDiffers};
    matches!(kind, Programmed | Ready | ShadowDiffers | LimitsShared)
}

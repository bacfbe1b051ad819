//! Instances, by the rules that say who belongs to them. Files have no history: of several that select the same the oldest has it.

use std::sync::Arc;

use portcullis_api::status::{Acceptance, Condition, ConditionType, InstanceFacts, InstanceStatus, Timestamp};
use portcullis_api::{INSTANCE_KIND, Problem};
use portcullis_instances::{
    Entitlement, InstanceFindings, InstanceObjects, JudgedInstance, Member, MemberKind, MemberName, Settlement,
    judge_instances, labels_of, settle,
};
use portcullis_sources::{ObjectSet, Place};
use portcullis_translate::Reason;
use serde_json::Value;

use super::checked::{CheckedObject, Finding};

/// All instances, and the owners of everything.
pub(super) struct CheckedInstances {
    judged: Vec<JudgedInstance>,
    settled: Settlement,
}

impl CheckedInstances {
    /// Those of a set. `reserved` is the `instance` of the settings.
    pub(super) fn of(objects: &ObjectSet, reserved: &str) -> Self {
        let judged = judge_instances(objects.instances.iter().map(AsRef::as_ref), reserved);
        let settled = settled(objects, &judged);
        Self { judged, settled }
    }

    /// The part of each cluster: the first has what belongs to no instance.
    pub(super) fn parts(&self, objects: &ObjectSet) -> Vec<Vec<usize>> {
        let part = |document: &Arc<Value>| {
            let owner = self.settled.owners.get(&MemberName::cluster(text(document, "/metadata/name")));
            vec![usize::from(owner.is_some_and(|owner| owner.holder.instance().is_some()))]
        };
        objects.clusters.iter().map(part).collect()
    }

    /// Their outcomes, in the order of the set.
    pub(super) fn outcomes(self, objects: &ObjectSet) -> Vec<CheckedObject> {
        let documents = self.judged.into_iter().zip(&objects.instance_places);
        documents.map(|(instance, place)| outcome(instance, place, &self.settled)).collect()
    }
}

fn settled(objects: &ObjectSet, judged: &[JudgedInstance]) -> Settlement {
    let clusters =
        objects.clusters.iter().map(|document| (MemberName::cluster(text(document, "/metadata/name")), document));
    let is_gateway = |document: &&Arc<Value>| text(document, "/kind") == "Gateway";
    let gateways = objects.others.iter().filter(is_gateway).map(|document| {
        let name = format!("{}/{}", text(document, "/metadata/namespace"), text(document, "/metadata/name"));
        (MemberName::gateway(name), document)
    });
    let members = clusters.chain(gateways).map(|(name, document)| Member {
        name,
        labels: labels_of(document),
        entitlement: Entitlement::Any,
    });
    let instances = judged.iter().filter_map(JudgedInstance::claim).collect();
    settle(&Settlement::default(), &InstanceObjects { instances, members: members.collect() }, |_, _| true)
}

fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document.pointer(field).and_then(Value::as_str).unwrap_or_default()
}

fn outcome(instance: JudgedInstance, place: &Place, settled: &Settlement) -> CheckedObject {
    let InstanceFindings { problems, is_conflicted } = instance.findings(settled);
    let JudgedInstance { name, outcome, warnings } = instance;
    let is_accepted = outcome.is_ok();
    let conflicts = settled.conflicts.get(&name).filter(|_| is_conflicted).map(ToString::to_string);
    let reason = match (problems.is_empty(), is_conflicted) {
        (true, _) => Reason::Accepted,
        (false, true) => Reason::Conflicted,
        (false, false) => Reason::Invalid,
    };
    let count = |is_meant: fn(MemberKind) -> bool| if is_accepted { settled.count(&name, is_meant) } else { 0 };
    let facts = InstanceFacts {
        acceptance: Acceptance { accepted: is_accepted, reason: accepted_word(is_accepted), ..Acceptance::default() },
        conflicts: conflicts.as_deref().unwrap_or_default(),
        gateways: count(|kind| kind != MemberKind::UpstreamCluster),
        served_gateways: None,
        clusters: count(|kind| kind == MemberKind::UpstreamCluster),
    };
    let finding = |is_error: bool| {
        move |problem: Problem| Finding {
            file: place.file.clone(),
            at: Some(place.spans.find(&problem.path)),
            is_error,
            problem,
        }
    };
    let mut findings: Vec<Finding> = problems.into_iter().map(finding(true)).collect();
    findings.extend(warnings.into_iter().map(finding(false)));
    findings.sort_by_key(|finding| finding.at);
    CheckedObject { kind: INSTANCE_KIND.to_owned(), reason, conditions: conditions(&facts), findings, name }
}

fn accepted_word(is_accepted: bool) -> &'static str {
    if is_accepted { "Accepted" } else { "Invalid" }
}

/// The conditions without `Ready`, which no file has, and the numbers of what belongs to the instance.
fn conditions(facts: &InstanceFacts<'_>) -> Vec<String> {
    let status = InstanceStatus::of(facts, None, &[], &Timestamp::from_seconds(0));
    let known = status.conditions.iter().filter(|one| one.kind != ConditionType::Ready);
    let line = |one: &Condition| format!("{} {} {}", one.kind, one.status, one.reason);
    let counts = format!("gateways {}, clusters {}", status.gateways, status.clusters);
    known.map(line).chain([counts]).collect()
}

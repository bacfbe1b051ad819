//! Instances, by the rules that say who belongs to them. Files have no history: of several that select the same the oldest has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::status::{Condition, ConditionType, InstanceFacts, InstanceStatus, Timestamp};
use portcullis_api::{
    INSTANCE_KIND, Problem, ProblemCode, ReferencedData, SETTINGS_KIND, Settings, without_references,
};
use portcullis_attach::ObjectName;
use portcullis_instances::{InstanceFindings, InstanceVerdict, JudgedInstance, MemberName, Settlement};
use portcullis_sources::{ObjectSet, Place};
use portcullis_translate::{Diagnosis, Reason, Version};
use serde_json::Value;

use super::checked::{CheckedObject, Finding};
use crate::divided_objects::{DividedObjects, OwnSettings};
use crate::serve::{Division, OwnPart};
use crate::spanning_policies::SpanningPolicies;

/// All instances, and the owners of everything.
pub(super) struct CheckedInstances {
    divided: DividedObjects,
    /// The documents of settings to which a default certificate belongs that is not here, by their places among all.
    believed: BTreeSet<usize>,
}

impl CheckedInstances {
    /// Those of a set. `shared`: the settings of all gateways.
    pub(super) fn of(objects: &ObjectSet, shared: &Settings) -> Self {
        let (documents, believed) = settings_documents(objects);
        Self { divided: DividedObjects::of(objects, &documents, shared), believed }
    }

    /// The parts of the clusters: the first has what belongs to no instance, the second what belongs to those without settings of
    /// their own.
    pub(super) fn division(&self, objects: &ObjectSet) -> Division {
        let own = &self.divided.own;
        let parts: BTreeMap<&str, usize> = own.keys().map(String::as_str).zip(2..).collect();
        let part = |document: &Arc<Value>| match self.divided.instance(text(document, "/metadata/name")) {
            None => vec![0],
            Some(instance) => vec![parts.get(instance).copied().unwrap_or(1)],
        };
        let of_instance = |(instance, own): (&String, &OwnSettings)| {
            let settings = Arc::clone(&own.settings);
            Some((*parts.get(instance.as_str())?, OwnPart { instance: instance.clone(), settings }))
        };
        Division {
            count: own.len().saturating_add(2),
            of: objects.clusters.iter().map(part).collect(),
            own: own.iter().filter_map(of_instance).collect(),
        }
    }

    /// Refuses the documents for which a policy decides whose targets belong to several owners. Returns all such policies.
    pub(super) fn refuse_spanning(&self, clusters: &mut [Arc<Value>]) -> SpanningPolicies {
        self.divided.refuse_spanning(clusters)
    }

    /// The owners of everything.
    pub(super) fn owners(&self) -> &Settlement {
        &self.divided.settled
    }

    /// The settings of a cluster's instance, if it has some of its own.
    pub(super) fn own_settings(&self, cluster: &str) -> Option<&Settings> {
        self.divided.own_settings(cluster).map(|own| own.settings.as_ref())
    }

    /// The instance of a Gateway.
    pub(super) fn of_gateway(&self, gateway: &ObjectName) -> Option<&str> {
        self.divided.settled.owners.get(&MemberName::gateway(gateway.to_string()))?.holder.instance()
    }

    /// The settings of an instance, if it has some of its own.
    pub(super) fn settings_of(&self, instance: &str) -> Option<&Settings> {
        self.divided.own.get(instance).map(|own| own.settings.as_ref())
    }

    /// Whether the settings that an instance names cannot be used.
    pub(super) fn lacks_settings(&self, instance: &str) -> bool {
        self.divided.settings_problem(instance).is_some()
    }

    /// Whether the settings of a cluster's instance have a default certificate that is not here.
    pub(super) fn believes_certificate(&self, cluster: &str) -> bool {
        self.divided.own_settings(cluster).is_some_and(|own| self.believed.contains(&own.document))
    }

    /// The diagnoses of `GatewaySettings` that instances name and not all gateways use, with their documents and places; a warning about
    /// those that nothing uses.
    pub(super) fn settings<'a>(&self, objects: &'a ObjectSet) -> Vec<(Diagnosis, &'a Value, &'a Place)> {
        let documents = objects.instance_settings.iter().zip(&objects.instance_settings_places).enumerate();
        let others = documents.filter(|(_, (document, _))| !objects.settings.contains(document.as_ref()));
        let diagnosis = |(index, (document, place)): (usize, (&'a Arc<Value>, &'a Place))| {
            let diagnosis =
                self.divided.named.get(&index).cloned().unwrap_or_else(|| unused(text(document, "/metadata/name")));
            (diagnosis, document.as_ref(), place)
        };
        others.map(diagnosis).collect()
    }

    /// Notes about owners that instances without a time have by their names.
    pub(super) fn notes(&self) -> Vec<String> {
        let DividedObjects { judged, settled, .. } = &self.divided;
        let is_undated = |name: &str| {
            let of_name = judged.iter().filter(|one| one.name == name).filter_map(|one| one.outcome.as_ref().ok());
            of_name.take(1).any(|checked| checked.creation_timestamp.is_none())
        };
        let pairs = settled.conflicts.iter().flat_map(|(name, conflicts)| {
            conflicts.named.iter().map(move |conflict| (conflict.owner.as_str(), name.as_str()))
        });
        let pairs: BTreeSet<(&str, &str)> = pairs.collect();
        let undated = pairs.into_iter().filter(|(owner, other)| is_undated(owner) || is_undated(other));
        let note = |(owner, other): (&str, &str)| {
            let both = is_undated(owner) && is_undated(other);
            let names = match (both, is_undated(owner)) {
                (true, _) => format!("Instances {owner} and {other} have"),
                (false, true) => format!("Instance {owner} has"),
                (false, false) => format!("Instance {other} has"),
            };
            format!(
                "{names} no creationTimestamp: {owner} has what both select, and in Kubernetes the older one has it"
            )
        };
        undated.map(note).collect()
    }

    /// Their outcomes, in the order of the set.
    pub(super) fn outcomes(self, objects: &ObjectSet) -> Vec<CheckedObject> {
        let DividedObjects { judged, settled, .. } = self.divided;
        let documents = judged.into_iter().zip(&objects.instance_places);
        documents.map(|(instance, place)| outcome(instance, place, &settled)).collect()
    }
}

/// The `GatewaySettings` that instances may name, without what they refer to where the files are not here, and those among them to
/// which a default certificate belongs then.
fn settings_documents(objects: &ObjectSet) -> (Vec<Arc<Value>>, BTreeSet<usize>) {
    if objects.referenced_data != ReferencedData::None {
        return (objects.instance_settings.clone(), BTreeSet::new());
    }
    let mut believed = BTreeSet::new();
    let without = |(index, document): (usize, &Arc<Value>)| {
        let (other, had_certificate) = without_references(document);
        if had_certificate {
            believed.insert(index);
        }
        Arc::new(other)
    };
    (objects.instance_settings.iter().enumerate().map(without).collect(), believed)
}

fn unused(name: &str) -> Diagnosis {
    let message = "is used by nothing: no Instance names it, and --settings-name names another one";
    let caution = Problem::coded(ProblemCode::NoEffect, "metadata.name", message);
    Diagnosis {
        kind: SETTINGS_KIND.to_owned(),
        name: name.to_owned(),
        at: None,
        accepted: true,
        reason: Reason::Accepted,
        message: String::new(),
        warnings: vec![caution.to_string()],
        problems: Vec::new(),
        cautions: vec![caution],
        shadow: None,
        names: Vec::new(),
        version: Version::default(),
    }
}

fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document.pointer(field).and_then(Value::as_str).unwrap_or_default()
}

fn outcome(instance: JudgedInstance, place: &Place, settled: &Settlement) -> CheckedObject {
    let verdict = InstanceVerdict::of(&instance, settled);
    let InstanceFindings { problems, is_conflicted } = instance.findings(settled);
    let reason = match (problems.is_empty(), is_conflicted) {
        (true, _) => Reason::Accepted,
        (false, true) => Reason::Conflicted,
        (false, false) => Reason::Invalid,
    };
    let finding = |is_error: bool| {
        move |problem: Problem| Finding {
            file: place.file.to_string(),
            at: Some(place.spans.find(&problem.path)),
            is_error,
            problem,
        }
    };
    let mut findings: Vec<Finding> = problems.into_iter().map(finding(true)).collect();
    findings.extend(instance.warnings.into_iter().map(finding(false)));
    findings.sort_by_key(|finding| finding.at);
    let conditions = conditions(&verdict.facts());
    CheckedObject { kind: INSTANCE_KIND.to_owned(), reason, conditions, findings, name: instance.name }
}

/// The conditions without `Ready`, which no file has, and the numbers of what belongs to the instance.
fn conditions(facts: &InstanceFacts<'_>) -> Vec<String> {
    let status = InstanceStatus::of(facts, None, &[], &Timestamp::from_seconds(0));
    let known = status.conditions.iter().filter(|one| one.kind != ConditionType::Ready);
    let line = |one: &Condition| format!("{} {} {}", one.kind, one.status, one.reason);
    let counts = format!("gateways {}, clusters {}", status.counts.gateways, status.counts.clusters);
    known.map(line).chain([counts]).collect()
}

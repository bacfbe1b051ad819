//! Policies that are attached to other objects, by the step that serves them.

use std::collections::BTreeMap;

use portcullis_api::{FieldOrigin, MergeStrategy, Problem, ProblemCode, origin_of};
use portcullis_attach::{AncestorVerdict, AttachedPolicies, PolicyObject, PolicyVerdict};
use portcullis_sources::{ObjectSet, Place};
use portcullis_translate::Reason;

use super::checked::{CheckedObject, Finding};
use crate::policies::JudgedPolicies;

/// The outcome of each policy, and of objects that are assumed to exist.
pub(super) fn outcomes(
    objects: &ObjectSet,
    policies: &[PolicyObject],
    attached: &AttachedPolicies,
) -> (Vec<CheckedObject>, Vec<String>) {
    let mut checked = Vec::new();
    let mut notes = Vec::new();
    let mut seen = BTreeMap::new();
    for (policy, place) in policies.iter().zip(&objects.policy_places) {
        let key = (policy.kind, policy.name());
        // Of two of one name the first verdict is the first one's.
        let earlier = seen.entry(key).and_modify(|count| *count += 1).or_insert(0_usize);
        let mut verdicts = attached.verdicts.iter();
        let verdict = verdicts.find(|one| one.kind == policy.kind && one.name == policy.name());
        let Some(verdict) = verdict else { continue };
        let mut object = outcome(policy, verdict, place);
        if *earlier > 0 {
            object.findings.push(finding(place, true, "metadata.name", "another one has the same name"));
            object.reason = Reason::Invalid;
        }
        notes.extend(verdict.notes.iter().map(|note| note.message.clone()));
        checked.push(object);
    }
    (checked, notes)
}

/// The place of a problem of an `UpstreamCluster` that is a policy's, and its path there.
pub(super) struct PolicyPlaces<'a> {
    by_name: BTreeMap<(&'static str, String), (&'a Place, MergeStrategy)>,
}

impl<'a> PolicyPlaces<'a> {
    pub(super) fn of(objects: &'a ObjectSet, judged: &'a JudgedPolicies) -> Self {
        let place = |(policy, place): (&PolicyObject, &'a Place)| {
            ((policy.kind.as_str(), policy.name().to_string()), (place, policy.strategy))
        };
        Self { by_name: judged.objects.iter().zip(&objects.policy_places).map(place).collect() }
    }

    /// None for a field that is the object's own.
    pub(super) fn find(&self, origins: &[FieldOrigin], path: &str) -> Option<(&'a Place, String)> {
        let origin = origin_of(origins, path)?;
        let (place, strategy) = self.by_name.get(&(origin.kind.as_str(), origin.policy.clone()))?;
        let below = path.strip_prefix("spec.portcullis.").or_else(|| path.strip_prefix("spec."))?;
        Some((place, format!("spec.{}.{below}", strategy.as_str())))
    }
}

fn outcome(policy: &PolicyObject, verdict: &PolicyVerdict, place: &Place) -> CheckedObject {
    let mut object = CheckedObject {
        kind: policy.kind.to_string(),
        name: policy.name().to_string(),
        reason: Reason::Accepted,
        conditions: Vec::new(),
        findings: Vec::new(),
    };
    let at = |is_error: bool| {
        move |problem: &Problem| Finding {
            file: place.file.to_string(),
            at: Some(place.spans.find(&problem.path)),
            is_error,
            problem: problem.clone(),
        }
    };
    object.findings.extend(policy.checked.as_ref().err().into_iter().flatten().map(at(true)));
    object.findings.extend(policy.warnings.iter().map(at(false)));
    for ancestor in &verdict.ancestors {
        // Targets of other controllers have no verdict.
        let index = policy.targets.iter().position(|target| *target == ancestor.target).unwrap_or_default();
        add(&mut object, ancestor, index, policy.checked.is_err(), place);
    }
    object.findings.sort_by_key(|finding| finding.at);
    object
}

fn add(object: &mut CheckedObject, ancestor: &AncestorVerdict, index: usize, is_refused: bool, place: &Place) {
    let section = ancestor.target.section_name.as_ref().map(|section| format!(" {section}")).unwrap_or_default();
    let target = format!("{} {}{section}", ancestor.target.kind, ancestor.target.name);
    for one in &ancestor.conditions {
        let status = if one.status { "True" } else { "False" };
        object.conditions.push(format!("target {target}: {} {status} {}", one.kind, one.reason));
        if one.status {
            continue;
        }
        let is_error = one.kind == "Accepted";
        if is_error {
            object.reason = if one.reason == "Conflicted" { Reason::Conflicted } else { Reason::Invalid };
        }
        // Its own problems are there one by one.
        if is_refused && one.reason == "Invalid" {
            continue;
        }
        let path = format!("spec.targetRefs[{index}]");
        object.findings.push(finding(place, is_error, &path, &format!("{target}: {}: {}", one.reason, one.message)));
    }
}

fn finding(place: &Place, is_error: bool, path: &str, message: &str) -> Finding {
    let code = if is_error { ProblemCode::Invalid } else { ProblemCode::Caution };
    let problem = Problem::coded(code, path, message);
    Finding { file: place.file.to_string(), at: Some(place.spans.find(path)), is_error, problem }
}

use std::collections::{BTreeMap, BTreeSet};

use portcullis_api::{CheckedInstance, Problem, check_instance, instance_mistakes, parse_instance};
use serde_json::Value;

use crate::claim::{InstanceClaim, too_many};
use crate::conflict::Conflicts;
use crate::settle::Settlement;

/// One `Instance` document, judged by itself and beside those before it.
#[derive(Clone, Debug)]
pub struct JudgedInstance {
    /// `metadata.name`; empty if it has none.
    pub name: String,
    /// The checked form, or every problem.
    pub outcome: Result<CheckedInstance, Vec<Problem>>,
    /// Accepted fields that may not do what their author expects.
    pub warnings: Vec<Problem>,
    /// Why the settings that it names are not used, if they are not.
    pub settings_problem: Option<Problem>,
}

/// Everything that is wrong with an instance among all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceFindings {
    /// Every problem, those of the object itself first.
    pub problems: Vec<Problem>,
    /// Whether it selects what belongs to another one.
    pub is_conflicted: bool,
}

impl JudgedInstance {
    /// Its problems, and those of what it selects and does not get.
    pub fn findings(&self, settled: &Settlement) -> InstanceFindings {
        if let Err(problems) = &self.outcome {
            return InstanceFindings { problems: problems.clone(), is_conflicted: false };
        }
        let conflicts = settled.conflicts.get(&self.name);
        let mut problems = self.own_problems(settled);
        problems.extend(conflicts.map(Conflicts::problems).unwrap_or_default());
        InstanceFindings { problems, is_conflicted: conflicts.is_some() }
    }

    /// Its problems that are none of what others have.
    pub(crate) fn own_problems(&self, settled: &Settlement) -> Vec<Problem> {
        let excess = settled.excess.contains(&self.name).then(|| Problem::new("metadata.name", too_many()));
        let of_object = self.outcome.as_ref().err().into_iter().flatten().cloned();
        of_object.chain(self.settings_problem.clone()).chain(excess).collect()
    }

    /// Whether all of its newest version holds. Of one that is not accepted the selectors hold if they are understood.
    pub fn is_accepted(&self) -> bool {
        self.outcome.is_ok() && self.settings_problem.is_none()
    }

    /// The claim of the object; that of a refused one keeps what it has. `None` if there is no name, or it is another one's.
    pub fn claim(&self) -> Option<InstanceClaim> {
        match &self.outcome {
            Ok(checked) => Some(InstanceClaim::accepted(checked.clone())),
            Err(problems) if self.name.is_empty() || problems.iter().any(|one| one.message == SAME_NAME) => None,
            Err(_) => Some(InstanceClaim { name: self.name.clone(), creation_timestamp: None, selection: None }),
        }
    }
}

const SAME_NAME: &str = "another Instance has the same name";

/// Judges documents in their order. `reserved` is the `instance` of the `GatewaySettings`: the name of everything that belongs to no
/// `Instance`.
pub fn judge_instances<'a>(documents: impl IntoIterator<Item = &'a Value>, reserved: &str) -> Vec<JudgedInstance> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let judged = documents.into_iter().map(|document| {
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (mut outcome, warnings) = match parse_instance(document) {
            Ok(raw) => {
                let checked = check_instance(&raw);
                (checked.outcome, checked.warnings)
            }
            Err(_) => (Err(instance_mistakes(document)), Vec::new()),
        };
        if !name.is_empty() && !seen.insert(name.clone()) {
            outcome = refused(outcome, SAME_NAME);
        } else if name == reserved {
            outcome = refused(outcome, RESERVED);
        }
        JudgedInstance { name, outcome, warnings, settings_problem: None }
    });
    judged.collect()
}

const RESERVED: &str =
    "is the instance of the GatewaySettings, which is the name of everything that belongs to no Instance";

fn refused<T>(outcome: Result<T, Vec<Problem>>, message: &str) -> Result<T, Vec<Problem>> {
    let mut problems = outcome.err().unwrap_or_default();
    problems.push(Problem::new("metadata.name", message));
    Err(problems)
}

/// The labels of an object.
pub fn labels_of(document: &Value) -> BTreeMap<String, String> {
    let labels = document.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The labels of an object; `None` if one of them is no text. Kubernetes stores no such object, and a file may have it.
pub fn text_labels_of(document: &Value) -> Option<BTreeMap<String, String>> {
    match document.pointer("/metadata/labels") {
        None | Some(Value::Null) => Some(BTreeMap::new()),
        Some(Value::Object(labels)) => {
            labels.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(name: &str, spec: &Value) -> Value {
        let kinds = (portcullis_api::INSTANCE_API_VERSION, portcullis_api::INSTANCE_KIND);
        json!({"apiVersion": kinds.0, "kind": kinds.1, "metadata": {"name": name}, "spec": spec})
    }

    #[test]
    fn names_are_unique_and_not_that_of_the_settings() {
        let documents = [
            document("a", &json!({})),
            document("a", &json!({})),
            document("portcullis", &json!({"clustersSelector": {}})),
            document("b", &json!({"clusterSelector": {}})),
            document("", &json!({})),
        ];
        let judged = judge_instances(&documents, "portcullis");
        let found: Vec<_> = judged.iter().map(|one| one.outcome.as_ref().err().map(|all| all[0].to_string())).collect();
        let parts = [
            None,
            Some("metadata.name: another Instance has the same name"),
            Some("metadata.name: is the instance of the GatewaySettings"),
            Some("spec.clusterSelector: unknown field"),
            Some("metadata.name: must be a DNS label"),
        ];
        for (found, part) in found.iter().zip(parts) {
            let is_it = found.as_deref().unwrap_or_default().starts_with(part.unwrap_or_default());
            assert!(is_it && found.is_some() == part.is_some(), "{found:?} {part:?}");
        }
        let claims: Vec<_> = judged.iter().map(|one| one.claim().map(|claim| claim.selection.is_some())).collect();
        assert_eq!(claims, [Some(true), None, Some(false), Some(false), None]);
    }

    #[test]
    fn labels_are_texts_or_unknown() {
        let team = |value: &str| Some(BTreeMap::from([("team".to_owned(), value.to_owned())]));
        for (metadata, expected) in [
            (json!({}), Some(BTreeMap::new())),
            (json!({"labels": null}), Some(BTreeMap::new())),
            (json!({"labels": {"team": "a"}}), team("a")),
            (json!({"labels": {"team": 1}}), None),
            (json!({"labels": {"team": "a", "other": null}}), None),
            (json!({"labels": ["team"]}), None),
        ] {
            assert_eq!(text_labels_of(&json!({"metadata": metadata})), expected, "{metadata}");
        }
    }
}

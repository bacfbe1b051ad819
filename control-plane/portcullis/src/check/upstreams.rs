//! `KubernetesUpstreams`, by the checks of the control plane. Secrets and `ConfigMaps` are assumed to be there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{
    KubernetesUpstream, ObjectKind, Problem, UPSTREAM_KIND, UpstreamContent, assumed_material, check_upstream, kind_of,
    parse_upstream, referred_by_upstream, upstream_key, upstream_rules,
};
use portcullis_attach::{
    Attached, ConditionVerdict, ObjectName, UpstreamObject, UpstreamPolicies, UpstreamState, unread_content,
};
use portcullis_gateway_api::ObjectMeta;
use portcullis_sources::{ObjectSet, Place};
use portcullis_translate::{Reason, ResolvedUpstream};
use serde::Deserialize;
use serde_json::Value;

use super::checked::{CheckedObject, Finding};

/// The upstreams among the objects.
#[derive(Default)]
pub(super) struct CheckedUpstreams<'a> {
    pub(super) objects: Vec<UpstreamObject>,
    pub(super) states: BTreeMap<ObjectName, UpstreamState>,
    /// Objects that are not here and are assumed to exist.
    pub(super) notes: Vec<String>,
    /// Those that can be used, by their keys, with placeholders in the place of what they refer to.
    pub(super) resolved: BTreeMap<String, Arc<ResolvedUpstream>>,
    documents: Vec<CheckedDocument<'a>>,
}

/// One document, and what is wrong with it.
struct CheckedDocument<'a> {
    name: ObjectName,
    place: &'a Place,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// Whether a document is one of these.
pub(super) fn is_upstream(document: &Value) -> bool {
    kind_of(document) == ObjectKind::KubernetesUpstream
}

impl<'a> CheckedUpstreams<'a> {
    /// Checks all with their policies. `allow_loopback` is `allowLoopbackUpstreams` of the settings.
    pub(super) fn of(objects: &'a ObjectSet, policies: &UpstreamPolicies, allow_loopback: bool) -> Self {
        let mut all = Self::default();
        let mut seen = BTreeSet::new();
        let documents = objects.others.iter().zip(&objects.others_places);
        for (document, place) in documents.filter(|(document, _)| is_upstream(document)) {
            let metadata =
                document.get("metadata").and_then(|written| ObjectMeta::deserialize(written).ok()).unwrap_or_default();
            let name = ObjectName::of(&metadata);
            let mut checked = CheckedDocument { name: name.clone(), place, problems: Vec::new(), warnings: Vec::new() };
            let rules = upstream_rules(policies.get(&name).map_or(&[][..], Vec::as_slice));
            let resolved = all.check(document, rules, allow_loopback, &mut checked);
            if !seen.insert(name.clone()) {
                checked.problems.push(Problem::new("metadata.name", "another one has the same name"));
            }
            let state = match checked.problems.is_empty() {
                true => UpstreamState::Usable,
                false => UpstreamState::Invalid(
                    checked.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                ),
            };
            if let Some(resolved) = resolved.filter(|_| state == UpstreamState::Usable) {
                all.resolved.insert(upstream_key(&name.namespace, &name.name), Arc::new(resolved));
            }
            all.states.entry(name).or_insert(state);
            all.objects.push(UpstreamObject { metadata, contents: Vec::new() });
            all.documents.push(checked);
        }
        all
    }

    /// `None` if it cannot be read.
    fn check(
        &mut self,
        document: &Arc<Value>,
        rules: Arc<Value>,
        allow_loopback: bool,
        checked: &mut CheckedDocument<'_>,
    ) -> Option<ResolvedUpstream> {
        let raw = match parse_upstream(document) {
            Ok(raw) => raw,
            Err(problems) => {
                checked.problems = problems;
                return None;
            }
        };
        let material = assumed_material(&raw);
        let outcome = check_upstream(&raw, &material, &rules, allow_loopback);
        checked.problems = outcome.outcome.err().unwrap_or_default();
        checked.warnings = outcome.warnings;
        self.notes.extend(assumed(&raw));
        Some(ResolvedUpstream { document: Arc::clone(document), material, rules })
    }

    /// The outcomes, with the conditions by the step that attaches routes.
    pub(super) fn outcomes(self, attached: &Attached) -> Vec<CheckedObject> {
        self.documents.into_iter().map(|document| outcome(document, attached)).collect()
    }
}

fn assumed(raw: &KubernetesUpstream) -> Vec<String> {
    let namespace = raw.metadata.namespace.as_deref().unwrap_or_default();
    let note = |content: UpstreamContent<'_>| {
        let (kind, name) = match content {
            UpstreamContent::Secret(name) => ("Secret", name),
            UpstreamContent::ConfigMap(name) => ("ConfigMap", name),
        };
        unread_content(kind, format!("{namespace}/{name}"))
    };
    referred_by_upstream(raw).into_iter().map(note).collect()
}

fn outcome(document: CheckedDocument<'_>, attached: &Attached) -> CheckedObject {
    let CheckedDocument { name, place, problems, warnings } = document;
    let finding = |is_error: bool| {
        move |problem: Problem| {
            let at = Some(place.spans.find(&problem.path));
            Finding { file: place.file.to_string(), at, is_error, problem }
        }
    };
    let verdict = attached.upstreams.iter().find(|one| one.name == name);
    let verdicts = verdict.map(|one| one.conditions.as_slice()).unwrap_or_default();
    // Its own problems are there one by one.
    let beyond = verdicts.iter().filter(|one| !one.status && one.reason != "Invalid");
    let beyond = beyond.map(|one| Problem::new("metadata.name", format!("{}: {}", one.reason, one.message)));
    let mut findings: Vec<Finding> = problems.into_iter().chain(beyond).map(finding(true)).collect();
    findings.extend(warnings.into_iter().map(finding(false)));
    findings.sort_by_key(|finding| finding.at);
    let is_bad = findings.iter().any(|finding| finding.is_error);
    let condition = |one: &ConditionVerdict| {
        // Of policies the message says which.
        let says = if one.kind.ends_with("PolicyAffected") { &one.message } else { one.reason };
        format!("{} {} {says}", one.kind, if one.status { "True" } else { "False" })
    };
    CheckedObject {
        kind: UPSTREAM_KIND.to_owned(),
        name: name.to_string(),
        reason: if is_bad { Reason::Invalid } else { Reason::Accepted },
        conditions: verdicts.iter().map(condition).collect(),
        findings,
    }
}

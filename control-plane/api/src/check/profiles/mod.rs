//! Profiles: policies and limits that an annotation puts in the place of those of the spec. Denials of policies that tighten stay, and are
//! asked before those of the profile; limits of the object's own profiles are lowered by such policies ([`crate::attached`]).

mod built_in;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use portcullis_filter_config::FlowControlSchema;

pub use built_in::BUILT_IN_PROFILES;
use built_in::{FROZEN, built_in};

use super::denials::{check_denials, check_heartbeats};
use super::flow_control::check_flow_control;
use super::policies::{Policy, check_policies, check_spelling};
use super::{FeatureGates, Findings, Server, UpstreamIdentity};
use crate::attached::{origins_of, tightening};
use crate::problem::{Problem, ProblemCode};
use crate::types::{PolicyProfile, PortcullisSpec, UpstreamCluster, UpstreamClusterSpec};

/// The annotation with the name of the profile that is in effect.
pub const PROFILE_ANNOTATION: &str = "portcullis.dev/profile";

/// Most characters of a name.
const MAX_NAME: usize = 63;

/// A profile that is in effect.
pub(super) struct InEffect {
    pub(super) name: String,
    /// The policies and limits; none if no request is let in.
    pub(super) policies: Option<(Vec<Policy>, Vec<FlowControlSchema>)>,
}

/// The parts of an object that its profiles depend on.
pub(super) struct Surroundings<'a> {
    pub(super) servers: &'a [Server],
    pub(super) identity: &'a UpstreamIdentity,
    pub(super) gates: &'a FeatureGates,
}

/// The name in the annotation; `None` if it is empty.
fn annotated(raw: &UpstreamCluster) -> Option<&str> {
    let annotation = raw.metadata.annotations.as_ref()?.get(PROFILE_ANNOTATION)?;
    Some(annotation.trim()).filter(|name| !name.is_empty())
}

/// The profile of that name: the object's own, or a built-in one.
fn profile<'a>(spec: &'a UpstreamClusterSpec, name: &str) -> Option<Cow<'a, PolicyProfile>> {
    let own = spec.portcullis.profiles.iter().find(|profile| profile.name == name && name != FROZEN);
    match own {
        Some(own) => Some(Cow::Borrowed(own)),
        None => built_in(name, &spec.portcullis.operator_groups).map(Cow::Owned),
    }
}

/// Those dispatch policies of an object that no profile replaces: its owner's profile is no word of those who tighten.
fn denials_of_others<T>(raw: &UpstreamCluster, policies: Vec<T>) -> impl Iterator<Item = T> {
    let kept = tightening(&origins_of(raw));
    policies.into_iter().enumerate().filter(move |(index, _)| kept.contains(index)).map(|(_, policy)| policy)
}

/// The policies and limits of a profile, behind those of the object's policies that it does not replace.
pub(super) fn behind_denials(
    raw: &UpstreamCluster,
    policies: Vec<Policy>,
    (own, limits): (Vec<Policy>, Vec<FlowControlSchema>),
) -> (Vec<Policy>, Vec<FlowControlSchema>) {
    (denials_of_others(raw, policies).chain(own).collect(), limits)
}

/// The object with the policies and limits that are in effect, as a profile that its annotation names has them. Of an object
/// that is frozen, and of one whose annotation names no profile, they are those of the spec.
pub fn with_profile(raw: &UpstreamCluster) -> Cow<'_, UpstreamCluster> {
    let chosen = annotated(raw).filter(|name| *name != FROZEN).and_then(|name| profile(&raw.spec, name));
    let Some(chosen) = chosen.map(Cow::into_owned) else { return Cow::Borrowed(raw) };
    let mut changed = raw.clone();
    let denials = denials_of_others(raw, std::mem::take(&mut changed.spec.dispatch_policies));
    changed.spec.dispatch_policies = denials.chain(chosen.dispatch_policies).collect();
    changed.spec.flow_control = chosen.flow_control;
    Cow::Owned(changed)
}

/// Checks all profiles, so that none turns out to be wrong when it is needed, and gives the one that the annotation names.
pub(super) fn check_profiles(
    raw: &UpstreamCluster,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) -> Option<InEffect> {
    check_operators(&raw.spec.portcullis.operator_groups, findings);
    let chosen = annotated(raw);
    let mut in_effect = None;
    let mut names = BTreeSet::new();
    for (index, profile) in raw.spec.portcullis.profiles.iter().enumerate() {
        let path = format!("spec.portcullis.profiles[{index}]");
        check_name(&profile.name, &path, findings);
        if !names.insert(&profile.name) {
            findings.problem(format!("{path}.name"), "is used by another profile");
        }
        let checked = around.check(profile, &raw.spec, &path, findings);
        if chosen == Some(&profile.name) {
            in_effect = Some(InEffect { name: profile.name.clone(), policies: Some(checked) });
        }
    }
    let name = chosen?;
    if in_effect.is_none() {
        in_effect = use_built_in(name, raw, around, findings);
    }
    let path = format!("metadata.annotations[{PROFILE_ANNOTATION}]");
    if in_effect.is_none() {
        let hint = format!("the built-in profiles are {}", BUILT_IN_PROFILES.join(", "));
        findings.problem_with_hint(path, "is not the name of a profile in spec.portcullis.profiles", hint);
        return None;
    }
    let message = format!("{name} is in effect in the place of spec.dispatchPolicies and spec.flowControl");
    let hint = "portcullis thaw, or removing the annotation, ends it";
    findings.warn(Problem::coded(ProblemCode::ProfileInEffect, path, message).hint(hint));
    in_effect
}

/// Patterns would let in others than the operators.
fn check_operators(groups: &[String], findings: &mut Findings) {
    for (index, group) in groups.iter().enumerate() {
        if group.is_empty() || group == "*" || group.starts_with('-') {
            let path = format!("spec.portcullis.operatorGroups[{index}]");
            findings.problem(path, "must be the name of a group");
        }
    }
}

fn check_name(name: &str, path: &str, findings: &mut Findings) {
    let is_word = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-';
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_word) {
        findings.problem(format!("{path}.name"), "must be up to 63 lower-case letters, digits and -");
    } else if name == FROZEN {
        findings.problem(format!("{path}.name"), "is the profile that answers every request with 429");
    }
}

fn use_built_in(
    name: &str,
    raw: &UpstreamCluster,
    around: &Surroundings<'_>,
    findings: &mut Findings,
) -> Option<InEffect> {
    let profile = built_in(name, &raw.spec.portcullis.operator_groups)?;
    let path = format!("metadata.annotations[{PROFILE_ANNOTATION}]");
    let checked = (name != FROZEN).then(|| around.check(&profile, &raw.spec, &path, findings));
    Some(InEffect { name: name.to_owned(), policies: checked })
}

impl Surroundings<'_> {
    /// Checks a profile as if its policies and limits were those of the spec; `path` is the place of the problems.
    fn check(
        &self,
        profile: &PolicyProfile,
        spec: &UpstreamClusterSpec,
        path: &str,
        findings: &mut Findings,
    ) -> (Vec<Policy>, Vec<FlowControlSchema>) {
        let fair_queues = spec.portcullis.fair_queues.clone();
        let changed = UpstreamClusterSpec {
            servers: spec.servers.clone(),
            flow_control: profile.flow_control.clone(),
            dispatch_policies: profile.dispatch_policies.clone(),
            portcullis: PortcullisSpec { fair_queues, ..PortcullisSpec::default() },
            ..UpstreamClusterSpec::default()
        };
        let mut found = Findings::default();
        let schemas = check_flow_control(&changed.flow_control, self.gates.global_limits, &mut found);
        let policies = check_policies(&changed, self.servers, &mut found);
        check_spelling(&changed, &mut found);
        check_heartbeats(&changed.dispatch_policies, &mut found);
        check_denials(&changed.dispatch_policies, self.identity, &mut found);
        check_names(&changed, &mut found);
        for (index, _) in changed.dispatch_policies.iter().enumerate().filter(|(_, policy)| policy.is_shadow()) {
            found
                .problem(format!("spec.dispatchPolicies[{index}].portcullis.mode"), "is not for a policy of a profile");
        }
        let moved = |mut problem: Problem| {
            problem.path = problem.path.replacen("spec", path, 1);
            problem
        };
        findings.problems.extend(found.problems.into_iter().map(moved));
        findings.warnings.extend(found.warnings.into_iter().map(moved));
        (policies, schemas)
    }
}

fn check_names(spec: &UpstreamClusterSpec, findings: &mut Findings) {
    let queues: BTreeSet<&String> = spec.portcullis.fair_queues.iter().map(|queue| &queue.name).collect();
    for (index, schema) in spec.flow_control.flow_control_schemas.iter().enumerate() {
        if queues.contains(&schema.name) {
            findings.problem(format!("spec.flowControl.flowControlSchemas[{index}].name"), "is used by a fair queue");
        }
    }
}

//! `KubernetesUpstreams` with the content of their references, as far as they can be judged before a route leads there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{
    Cluster, KubernetesUpstream, PolicyInEffect, Problem, UpstreamContent, UpstreamMaterial, assumed_material,
    check_upstream, parse_upstream, referred_by_upstream, upstream_key, upstream_material, upstream_rules,
};
use portcullis_attach::{ContentKind, ContentName, ObjectName, UpstreamObject, UpstreamPolicies, UpstreamState};
use portcullis_gateway_api::ObjectMeta;
use portcullis_sources::{GatewayApiObjects, WatchedKind};
use portcullis_translate::ResolvedUpstream;
use serde::Deserialize;
use serde_json::Value;

use super::name_of;
use super::secrets::GatewayContents;
use crate::client_ca::check_client_ca;

/// The upstreams of the last step: one that is as it was is not checked again.
#[derive(Default)]
pub(super) struct KnownUpstreams(BTreeMap<ObjectName, KnownUpstream>);

struct KnownUpstream {
    document: Arc<Value>,
    policies: Vec<PolicyInEffect>,
    rules: Arc<Value>,
    /// Its document with its rules and the content of its references, if they have any.
    resolved: Option<Arc<ResolvedUpstream>>,
    state: UpstreamState,
}

/// The upstreams among the objects, with everything that they refer to.
pub(super) fn upstream_objects(objects: &GatewayApiObjects) -> Vec<UpstreamObject> {
    let object = |document: &Arc<Value>| {
        let metadata = document.get("metadata").and_then(|written| ObjectMeta::deserialize(written).ok())?;
        let contents = parse_upstream(document).map(|raw| contents(&raw)).unwrap_or_default();
        Some(UpstreamObject { metadata, contents })
    };
    objects.of(WatchedKind::KubernetesUpstream).filter_map(object).collect()
}

/// The objects that an upstream refers to.
fn contents(raw: &KubernetesUpstream) -> Vec<ContentName> {
    let namespace = raw.metadata.namespace.as_deref().unwrap_or_default();
    let content = |content: UpstreamContent<'_>| match content {
        UpstreamContent::Secret(name) => {
            ContentName { kind: ContentKind::UpstreamSecret, object: ObjectName::new(namespace, name) }
        }
        UpstreamContent::ConfigMap(name) => {
            ContentName { kind: ContentKind::ConfigMap, object: ObjectName::new(namespace, name) }
        }
    };
    referred_by_upstream(raw).into_iter().map(content).collect()
}

impl KnownUpstreams {
    /// Judges the newest objects with these policies and contents, as far as they are `within` their bounds: a check of each other one
    /// would be work that nothing bounds.
    pub(super) fn follow(
        &mut self,
        objects: &GatewayApiObjects,
        within: &BTreeSet<ObjectName>,
        policies: &UpstreamPolicies,
        contents: &GatewayContents,
    ) {
        let before = std::mem::take(&mut self.0);
        let judged = |document: &Arc<Value>| {
            let name = name_of(document);
            within.contains(&name).then(|| {
                let policies = policies.get(&name).map_or(&[][..], Vec::as_slice);
                let judged = judge(document, policies, contents, before.get(&name));
                (name, judged)
            })
        };
        self.0 = objects.of(WatchedKind::KubernetesUpstream).filter_map(judged).collect();
    }

    /// The states of all, for the verdicts.
    pub(super) fn states(&self) -> BTreeMap<ObjectName, UpstreamState> {
        self.0.iter().map(|(name, known)| (name.clone(), known.state.clone())).collect()
    }

    /// Those with content, by their keys, for which the condition holds.
    pub(super) fn resolved(&self, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Arc<ResolvedUpstream>> {
        let resolved = |(name, known): (&ObjectName, &KnownUpstream)| {
            let key = upstream_key(&name.namespace, &name.name);
            let is_usable = known.state == UpstreamState::Usable && is_wanted(&key);
            known.resolved.as_ref().filter(|_| is_usable).map(|resolved| (key, Arc::clone(resolved)))
        };
        self.0.iter().filter_map(resolved).collect()
    }
}

impl KnownUpstream {
    fn is_of(&self, document: &Arc<Value>, policies: &[PolicyInEffect]) -> bool {
        self.document == *document && self.policies == policies
    }

    /// Whether it is wrong by itself, whatever its references have.
    fn is_wrong(&self) -> bool {
        self.resolved.is_none() && matches!(self.state, UpstreamState::Invalid(_))
    }
}

/// Rules are merged, and an upstream is checked, only if something is other than before.
fn judge(
    document: &Arc<Value>,
    policies: &[PolicyInEffect],
    contents: &GatewayContents,
    known: Option<&KnownUpstream>,
) -> KnownUpstream {
    let known = known.filter(|known| known.is_of(document, policies));
    let rules = known.map_or_else(|| upstream_rules(policies), |known| Arc::clone(&known.rules));
    let judged = |resolved: Option<Arc<ResolvedUpstream>>, state: UpstreamState| KnownUpstream {
        document: Arc::clone(document),
        policies: policies.to_vec(),
        rules: Arc::clone(&rules),
        resolved,
        state,
    };
    if let Some(known) = known.filter(|known| known.is_wrong()) {
        return judged(None, known.state.clone());
    }
    let invalid = |problems: Vec<Problem>| judged(None, UpstreamState::Invalid(in_words(&problems)));
    let raw = match parse_upstream(document) {
        Ok(raw) => raw,
        Err(problems) => return invalid(problems),
    };
    // Its own mistakes come first: a reference that is missing by mistake is none that has no content.
    if known.is_none()
        && let Err(problems) = checked(&raw, &assumed_material(&raw), &rules)
    {
        return invalid(problems);
    }
    let namespace = raw.metadata.namespace.as_deref().unwrap_or_default();
    let secret = |name: &str| contents.upstream_secret(&ObjectName::new(namespace, name));
    let config_map = |name: &str| contents.authority(&ObjectName::new(namespace, name));
    let material = match upstream_material(&raw, secret, config_map) {
        Ok(material) => material,
        Err(why) => return judged(None, UpstreamState::Unresolved(why.to_string())),
    };
    if let Some(KnownUpstream { resolved: Some(before), state, .. }) = known
        && before.material == material
    {
        return judged(Some(Arc::clone(before)), state.clone());
    }
    let resolved = ResolvedUpstream { document: Arc::clone(document), material, rules: Arc::clone(&rules) };
    let state = match check(&raw, &resolved) {
        Ok(()) => UpstreamState::Usable,
        Err(why) => UpstreamState::Invalid(why),
    };
    judged(Some(Arc::new(resolved)), state)
}

fn checked(raw: &KubernetesUpstream, material: &UpstreamMaterial, rules: &Value) -> Result<Cluster, Vec<Problem>> {
    #[cfg(test)]
    tests::CHECKS.set(tests::CHECKS.get() + 1);
    check_upstream(raw, material, rules, true).outcome
}

/// Whether it can be served under any settings. The translation knows these, and refuses loopback addresses.
fn check(raw: &KubernetesUpstream, upstream: &ResolvedUpstream) -> Result<(), String> {
    let cluster = checked(raw, &upstream.material, &upstream.rules).map_err(|problems| in_words(&problems))?;
    let Some(pem) = &cluster.client_ca else { return Ok(()) };
    check_client_ca(&String::from_utf8_lossy(pem.as_slice())).map_err(|why| format!("spec.references.clientCA: {why}"))
}

fn in_words(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;

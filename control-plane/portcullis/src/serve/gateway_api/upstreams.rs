//! `KubernetesUpstreams` with the content of their references, as far as they can be judged before a route leads there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{
    KubernetesUpstream, Problem, UpstreamContent, UpstreamMaterial, assumed_material, check_upstream, parse_upstream,
    referred_by_upstream, upstream_key, upstream_material,
};
use portcullis_attach::{ContentKind, ContentName, ObjectName, UpstreamObject, UpstreamState};
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
    /// Its document with the content of its references, if they have any.
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
    /// Judges the newest objects with these contents, as far as they are `within` their bounds: a check of each other one would be work
    /// that nothing bounds.
    pub(super) fn follow(
        &mut self,
        objects: &GatewayApiObjects,
        within: &BTreeSet<ObjectName>,
        contents: &GatewayContents,
    ) {
        let before = std::mem::take(&mut self.0);
        let judged = |document: &Arc<Value>| {
            let name = name_of(document);
            within.contains(&name).then(|| {
                let known = before.get(&name);
                let judged = judge(document, contents, known);
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

fn judge(document: &Arc<Value>, contents: &GatewayContents, known: Option<&KnownUpstream>) -> KnownUpstream {
    let invalid =
        |problems: Vec<Problem>| KnownUpstream { resolved: None, state: UpstreamState::Invalid(in_words(&problems)) };
    let raw = match parse_upstream(document) {
        Ok(raw) => raw,
        Err(problems) => return invalid(problems),
    };
    // Its own mistakes come first: a reference that is missing by mistake is none that has no content.
    if let Err(problems) = check_upstream(&raw, &assumed_material(&raw), true).outcome {
        return invalid(problems);
    }
    let namespace = raw.metadata.namespace.as_deref().unwrap_or_default();
    let secret = |name: &str| contents.upstream_secret(&ObjectName::new(namespace, name));
    let config_map = |name: &str| contents.authority(&ObjectName::new(namespace, name));
    let material = match upstream_material(&raw, secret, config_map) {
        Ok(material) => material,
        Err(why) => return KnownUpstream { resolved: None, state: UpstreamState::Unresolved(why.to_string()) },
    };
    let resolved = ResolvedUpstream { document: Arc::clone(document), material };
    if let Some(KnownUpstream { resolved: Some(before), state }) = known
        && **before == resolved
    {
        return KnownUpstream { resolved: Some(Arc::clone(before)), state: state.clone() };
    }
    let state = match check(&raw, &resolved.material) {
        Ok(()) => UpstreamState::Usable,
        Err(why) => UpstreamState::Invalid(why),
    };
    KnownUpstream { resolved: Some(Arc::new(resolved)), state }
}

/// Whether it can be served under any settings. The translation knows these, and refuses loopback addresses.
fn check(raw: &KubernetesUpstream, material: &UpstreamMaterial) -> Result<(), String> {
    let cluster = check_upstream(raw, material, true).outcome.map_err(|problems| in_words(&problems))?;
    let Some(pem) = &cluster.client_ca else { return Ok(()) };
    check_client_ca(&String::from_utf8_lossy(pem.as_slice())).map_err(|why| format!("spec.references.clientCA: {why}"))
}

fn in_words(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;

//! The CustomResourceDefinitions of `UpstreamCluster`, `GatewaySettings`, `Instance`, `KubernetesUpstream` and policies, for kube-apiservers that store these
//! objects.
//!
//! - [`derive`]: fields, types and descriptions, from the types themselves.
//! - [`rules`]: what is refused at once, by the paths of the fields. It must never refuse what [`crate::check_cluster`]
//!   accepts; what needs more than one look at an object is left to that check.
//! - [`token_rules`]: the same of the issuers of tokens.
//! - [`settings_rules`]: the same of settings, by [`crate::check_settings`].
//! - [`instance_rules`]: the same of instances, by [`crate::check_instance`].
//! - [`upstream`]: the definition of `KubernetesUpstream`.
//! - [`policies`]: the definitions of policies that are attached to other objects.
//! - [`aliases`]: fields that have a second spelling.
//! - [`status`]: an object's status.
//! - [`definition`]: names and columns around it.

mod aliases;
mod definition;
mod derive;
mod instance_rules;
mod policies;
mod rules;
mod settings_rules;
mod status;
mod token_rules;
mod upstream;

pub use definition::{
    cluster_definition, instance_definition, policy_definition, settings_definition, upstream_definition,
};

use serde_json::{Value, json};

use crate::decode_errors::RENAMED;
use crate::kind::PolicyKind;
use crate::types::{GatewaySettingsSpec, InstanceSpec};

/// The shape of a whole `UpstreamCluster`: which fields are objects, lists or neither.
pub(crate) fn cluster_shape() -> Value {
    object_schema(spec())
}

/// The same of `GatewaySettings`.
pub(crate) fn settings_shape() -> Value {
    object_schema(derive::shape::<GatewaySettingsSpec>())
}

/// The same of an `Instance`.
pub(crate) fn instance_shape() -> Value {
    object_schema(derive::shape::<InstanceSpec>())
}

/// The same of a `KubernetesUpstream`.
pub(crate) fn upstream_shape() -> Value {
    object_schema(upstream::upstream_spec())
}

/// The same of a policy of a kind.
pub(crate) fn policy_shape(kind: PolicyKind) -> Value {
    object_schema(policies::policy_spec(kind))
}

fn object_schema(spec: Value) -> Value {
    let metadata = json!({"type": "object", "properties": {"annotations": {"type": "object"}}});
    json!({"type": "object", "properties": {"metadata": metadata, "spec": spec}})
}

/// The schema of `spec`; its descriptions are Markdown, as the doc comments are.
fn spec() -> Value {
    let mut spec = derive::spec();
    add_rules(&mut spec, rules::rules().into_iter().chain(token_rules::token_rules()));
    aliases::add(&mut spec);
    spec
}

/// The schema of `spec` of settings.
fn settings_spec() -> Value {
    let mut spec = derive::shape::<GatewaySettingsSpec>();
    add_rules(&mut spec, settings_rules::settings_rules().into_iter());
    spec
}

/// The schema of `spec` of an instance.
fn instance_spec() -> Value {
    let mut spec = derive::shape::<InstanceSpec>();
    add_rules(&mut spec, instance_rules::instance_rules().into_iter());
    spec
}

fn add_rules(spec: &mut Value, rules: impl Iterator<Item = (&'static str, Value)>) {
    rules_at(spec, rules.map(|(path, keywords)| (path.to_owned(), keywords)));
}

fn rules_at(spec: &mut Value, rules: impl Iterator<Item = (String, Value)>) {
    for (path, keywords) in rules {
        if let (Some(Value::Object(field)), Value::Object(keywords)) = (at(spec, &path), keywords) {
            field.extend(keywords);
        }
    }
}

/// Adds fields by their former names, refused: a field that the definition does not have is pruned without a word, and a stored
/// `anonymous: false` would be gone.
fn with_renamed(mut spec: Value) -> Value {
    for (path, new) in RENAMED {
        let Some((parent, old)) = path.strip_prefix("spec.").and_then(|path| path.rsplit_once('.')) else { continue };
        let Some(Value::Object(parent)) = at(&mut spec, parent) else { continue };
        let kind = if old == "anonymous" { "boolean" } else { "string" };
        let description = format!("Refused: its name is `{new}` now.");
        if let Some(Value::Object(fields)) = parent.get_mut("properties") {
            fields.insert(old.to_owned(), json!({"type": kind, "description": description}));
        }
        let rule = rules::cel(&format!("!has(self.{old})"), &format!("its name is {new} now"), &format!(".{old}"));
        let rules = parent.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(rule);
        }
    }
    spec
}

/// The schema of a field, by a path as `servers[].endpoint`; of `spec` itself if it is empty.
fn at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut schema = schema;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let name = step.trim_end_matches("[]");
        schema = schema.get_mut("properties")?.get_mut(name)?;
        if name != step {
            schema = schema.get_mut("items")?;
        }
    }
    Some(schema)
}

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

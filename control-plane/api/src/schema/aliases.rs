use serde_json::{Value, json};

use super::at;
use super::rules::cel;

/// Second spellings that are read: where, how, and of what.
pub(super) const ALIASES: [(&str, &str, &str); 6] = [
    ("dispatchPolicies[]", "upsteamSubset", "upstreamSubset"),
    ("flowControl", "schemas", "flowControlSchemas"),
    ("portcullis.profiles[].dispatchPolicies[]", "upsteamSubset", "upstreamSubset"),
    ("portcullis.profiles[].flowControl", "schemas", "flowControlSchemas"),
    ("portcullis.shadow.dispatchPolicies[]", "upsteamSubset", "upstreamSubset"),
    ("portcullis.shadow.flowControl", "schemas", "flowControlSchemas"),
];

/// Adds the second spellings. Without them a kube-apiserver would drop the field and with it what it says.
pub(super) fn add(spec: &mut Value) {
    add_below(spec, "");
}

/// The same of fields that are below another one.
pub(super) fn add_below(spec: &mut Value, place: &str) {
    for (parent, alias, name) in ALIASES {
        let parent = if place.is_empty() { parent.to_owned() } else { format!("{place}.{parent}") };
        let Some(Value::Object(parent)) = at(spec, &parent) else { continue };
        if let Some(Value::Object(fields)) = parent.get_mut("properties")
            && let Some(Value::Object(field)) = fields.get(name)
        {
            let mut field = field.clone();
            field.insert("description".to_owned(), format!("Another spelling of `{name}`.").into());
            fields.insert(alias.to_owned(), Value::Object(field));
        }
        let rule = cel(
            &format!("!(has(self.{alias}) && has(self.{name}))"),
            &format!("{alias} and {name} are the same field: remove one of the two"),
            "",
        );
        let rules = parent.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(rule);
        }
    }
}

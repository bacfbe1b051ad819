use super::{Told, parts};
use portcullis_filter_config::Rule;

/// Every verb that a resource request can have; an HTTP method without one has the empty verb.
const RESOURCE_VERBS: [&str; 11] =
    ["", "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch", "*"];
/// Verbs that are no HTTP method.
const ONLY_RESOURCE: [&str; 6] = ["create", "update", "list", "watch", "deletecollection", "proxy"];

pub(super) fn lint(rule: &Rule, path: &str, told: &mut Told) {
    let [resource, plain] = parts(rule);
    let (for_resources, for_paths) = (!resource.asks_nothing(), !plain.asks_nothing());
    for (index, entry) in rule.verbs.iter().enumerate() {
        let path = format!("{path}.verbs[{index}]");
        let verb = entry.strip_prefix('-').unwrap_or(entry);
        if verb.bytes().any(|c| c.is_ascii_uppercase()) {
            told.never(path, "verbs are lower-case", format!("write {}", mended(&verb.to_ascii_lowercase())));
        } else if for_resources && !for_paths && !RESOURCE_VERBS.contains(&verb) {
            told.never(path, "no resource request has this verb", hint_for_resources(verb));
        } else if for_paths && !for_resources && ONLY_RESOURCE.contains(&verb) {
            let hint = "the verb of a non-resource request is its HTTP method in lower case: get, post, put, ...";
            told.never(path, "no request to a nonResourceURL has this verb", hint);
        }
    }
    names(rule, path, told);
}

fn mended(verb: &str) -> &str {
    match verb {
        "post" => "create",
        "put" => "update",
        "head" => "get",
        other => other,
    }
}

fn hint_for_resources(verb: &str) -> String {
    match mended(verb) {
        other if other != verb => format!("{verb} requests have the verb {other}"),
        _ => "the verbs are get, list, watch, create, update, patch, delete and deletecollection".to_owned(),
    }
}

/// `create` and `deletecollection` go to a collection, so their requests have no name.
fn names(rule: &Rule, path: &str, told: &mut Told) {
    let wants_a_name = !rule.resource_names.is_empty()
        && rule.resource_names.iter().all(|name| !name.is_empty() && name != "*" && !name.starts_with('-'));
    let has_positive = rule.resources.iter().any(|entry| !entry.starts_with('-'));
    let only_objects = has_positive && rule.resources.iter().all(|entry| entry != "*" && !entry.contains('/'));
    if !wants_a_name || rule.verbs.iter().any(|verb| verb == "*") {
        return;
    }
    for (index, verb) in rule.verbs.iter().enumerate() {
        let never = verb == "deletecollection" || (verb == "create" && only_objects);
        if never {
            let message = format!("{verb} requests have no name, so resourceNames excludes them");
            told.never(format!("{path}.verbs[{index}]"), message, "give the verb a rule without resourceNames");
        }
    }
}

use portcullis_filter_config::Rule;

use super::Warnings;
use crate::dns_name::is_dns_label;
use crate::request_part::parts;

/// Built-in resources as they are mistaken, with their names.
const MISTAKEN: [(&str, &str); 44] = [
    ("pod", "pods"),
    ("po", "pods"),
    ("node", "nodes"),
    ("no", "nodes"),
    ("service", "services"),
    ("svc", "services"),
    ("secret", "secrets"),
    ("event", "events"),
    ("ev", "events"),
    ("configmap", "configmaps"),
    ("cm", "configmaps"),
    ("namespace", "namespaces"),
    ("ns", "namespaces"),
    ("endpoint", "endpoints"),
    ("ep", "endpoints"),
    ("serviceaccount", "serviceaccounts"),
    ("sa", "serviceaccounts"),
    ("persistentvolume", "persistentvolumes"),
    ("pv", "persistentvolumes"),
    ("persistentvolumeclaim", "persistentvolumeclaims"),
    ("pvc", "persistentvolumeclaims"),
    ("deployment", "deployments"),
    ("deploy", "deployments"),
    ("replicaset", "replicasets"),
    ("rs", "replicasets"),
    ("daemonset", "daemonsets"),
    ("ds", "daemonsets"),
    ("statefulset", "statefulsets"),
    ("sts", "statefulsets"),
    ("job", "jobs"),
    ("cronjob", "cronjobs"),
    ("cj", "cronjobs"),
    ("ingress", "ingresses"),
    ("ing", "ingresses"),
    ("networkpolicy", "networkpolicies"),
    ("netpol", "networkpolicies"),
    ("horizontalpodautoscaler", "horizontalpodautoscalers"),
    ("hpa", "horizontalpodautoscalers"),
    ("role", "roles"),
    ("rolebinding", "rolebindings"),
    ("clusterrole", "clusterroles"),
    ("clusterrolebinding", "clusterrolebindings"),
    ("lease", "leases"),
    ("customresourcedefinition", "customresourcedefinitions"),
];

pub(super) fn lint_resources(rule: &Rule, path: &str, warnings: &mut Warnings) {
    for (index, entry) in rule.resources.iter().enumerate() {
        resource(entry.strip_prefix('-').unwrap_or(entry), format!("{path}.resources[{index}]"), warnings);
    }
    for (index, entry) in rule.api_groups.iter().enumerate() {
        group(entry.strip_prefix('-').unwrap_or(entry), format!("{path}.apiGroups[{index}]"), warnings);
    }
    for (index, entry) in rule.api_versions.iter().enumerate() {
        if let Some((_, version)) = entry.split_once('/') {
            let hint = format!("write {version}, and the group into apiGroups");
            warnings.never(format!("{path}.apiVersions[{index}]"), "is a group and a version", hint);
        }
    }
    for (index, entry) in rule.namespaces.iter().enumerate() {
        let name = entry.strip_prefix('-').unwrap_or(entry);
        let is_known = name.is_empty() || name.contains(['*', ',', ' ']) || is_dns_label(name);
        if !is_known {
            let hint = "lower-case letters, digits and \"-\", at most 63";
            warnings.never(format!("{path}.namespaces[{index}]"), "is not a valid name of a namespace", hint);
        }
    }
}

fn resource(text: &str, path: String, warnings: &mut Warnings) {
    let (name, sub) = text.split_once('/').unwrap_or((text, ""));
    let lower = name.to_ascii_lowercase();
    let plural = MISTAKEN.iter().find(|(mistaken, _)| *mistaken == lower).map(|(_, plural)| *plural);
    let with_sub = |name: &str| if sub.is_empty() { name.to_owned() } else { format!("{name}/{sub}") };
    if text.ends_with("/*") || (text.contains('/') && sub.is_empty()) {
        let hint = match name {
            "*" => "\"*\" covers every resource with its subresources".to_owned(),
            name => format!("name them: {name}/status, {name}/log, ...; \"*\" covers all resources with subresources"),
        };
        warnings.never(path, "covers nothing: all subresources of a resource cannot be named", hint);
    } else if lower != name {
        let name = plural.unwrap_or(&lower);
        warnings.never(path, "resources are lower-case plurals", format!("write {}", with_sub(name)));
    } else if let Some(plural) = plural {
        warnings.never(path, "resources are named by their full plural", format!("write {}", with_sub(plural)));
    } else if let Some((name, group)) = name.split_once('.') {
        warnings.never(path, "holds a group", format!("write {}, and {group} into apiGroups", with_sub(name)));
    }
}

fn group(text: &str, path: String, warnings: &mut Warnings) {
    if text == "core" {
        warnings.never(path, "there is no group of this name", "the core group is \"\"");
    } else if text == "v1" {
        warnings.never(path, "is a version, not a group", "the core group is \"\"");
    } else if let Some((group, _)) = text.split_once('/') {
        warnings.never(path, "is a group and a version", format!("write {group}; a version goes into apiVersions"));
    } else if text.bytes().any(|c| c.is_ascii_uppercase()) {
        warnings.never(path, "groups are lower-case", format!("write {}", text.to_ascii_lowercase()));
    }
}

/// Every verb that a resource request can have; an HTTP method without one has the empty verb.
const RESOURCE_VERBS: [&str; 11] =
    ["", "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch", "*"];
/// Verbs that are no HTTP method.
const ONLY_RESOURCE: [&str; 6] = ["create", "update", "list", "watch", "deletecollection", "proxy"];

pub(super) fn lint_verbs(rule: &Rule, path: &str, warnings: &mut Warnings) {
    let [resource, plain] = parts(rule);
    let (for_resources, for_paths) = (!resource.asks_nothing(), !plain.asks_nothing());
    for (index, entry) in rule.verbs.iter().enumerate() {
        let path = format!("{path}.verbs[{index}]");
        let verb = entry.strip_prefix('-').unwrap_or(entry);
        if verb.bytes().any(|c| c.is_ascii_uppercase()) {
            warnings.never(path, "verbs are lower-case", format!("write {}", mended(&verb.to_ascii_lowercase())));
        } else if for_resources && !for_paths && !RESOURCE_VERBS.contains(&verb) {
            warnings.never(path, "no resource request has this verb", hint_for_resources(verb));
        } else if for_paths && !for_resources && ONLY_RESOURCE.contains(&verb) {
            let hint = "the verb of a non-resource request is its HTTP method in lower case: get, post, put, ...";
            warnings.never(path, "no request to a nonResourceURL has this verb", hint);
        }
    }
    names(rule, path, warnings);
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
fn names(rule: &Rule, path: &str, warnings: &mut Warnings) {
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
            warnings.never(format!("{path}.verbs[{index}]"), message, "give the verb a rule without resourceNames");
        }
    }
}

pub(super) fn lint_paths(rule: &Rule, path: &str, warnings: &mut Warnings) {
    let all = &rule.non_resource_urls;
    if !all.is_empty() && all.iter().all(|entry| entry.starts_with('-') && entry != "-*") {
        let list = format!("{path}.nonResourceURLs");
        warnings.never(
            list,
            "no path can be excluded, so exclusions alone match nothing",
            "name the paths that are meant",
        );
    }
    for (index, entry) in rule.non_resource_urls.iter().enumerate() {
        let text = entry.strip_prefix('-').unwrap_or(entry);
        let path = format!("{path}.nonResourceURLs[{index}]");
        if text == "*" || text != text.trim() {
            continue;
        }
        if !text.starts_with('/') && !"/".starts_with(text.strip_suffix('*').unwrap_or(text)) {
            let hint = format!("write /{}", text.trim_start_matches('*'));
            warnings.never(path, "every path starts with \"/\"", hint);
        } else if text.is_empty() {
            warnings.never(path, "no path is empty", "write /");
        } else if is_resource_path(text.strip_suffix('*').unwrap_or(text)) {
            let hint = "use apiGroups and resources: /api/<version>/... and /apis/<group>/<version>/... are resources";
            warnings.never(path, "requests to this path are resource requests", hint);
        }
    }
}

/// Whether the path and everything that begins like it is a resource's, as kube-apiserver takes them apart.
fn is_resource_path(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.first() {
        Some(&"api") => parts.len() >= 3,
        Some(&"apis") => parts.len() >= 4,
        _ => false,
    }
}

use super::Told;
use crate::check::is_dns_label;
use portcullis_filter_config::Rule;

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

pub(super) fn lint(rule: &Rule, path: &str, told: &mut Told) {
    for (index, entry) in rule.resources.iter().enumerate() {
        resource(entry.strip_prefix('-').unwrap_or(entry), format!("{path}.resources[{index}]"), told);
    }
    for (index, entry) in rule.api_groups.iter().enumerate() {
        group(entry.strip_prefix('-').unwrap_or(entry), format!("{path}.apiGroups[{index}]"), told);
    }
    for (index, entry) in rule.api_versions.iter().enumerate() {
        if let Some((_, version)) = entry.split_once('/') {
            let hint = format!("write {version}, and the group into apiGroups");
            told.never(format!("{path}.apiVersions[{index}]"), "is a group and a version", hint);
        }
    }
    for (index, entry) in rule.namespaces.iter().enumerate() {
        let name = entry.strip_prefix('-').unwrap_or(entry);
        let is_known = name.is_empty() || name.contains(['*', ',', ' ']) || is_dns_label(name);
        if !is_known {
            let hint = "lower-case letters, digits and \"-\", at most 63";
            told.never(format!("{path}.namespaces[{index}]"), "no namespace can be named so", hint);
        }
    }
}

fn resource(text: &str, path: String, told: &mut Told) {
    let (name, sub) = text.split_once('/').unwrap_or((text, ""));
    let lower = name.to_ascii_lowercase();
    let plural = MISTAKEN.iter().find(|(mistaken, _)| *mistaken == lower).map(|(_, plural)| *plural);
    let with_sub = |name: &str| if sub.is_empty() { name.to_owned() } else { format!("{name}/{sub}") };
    if text.ends_with("/*") || (text.contains('/') && sub.is_empty()) {
        let hint = match name {
            "*" => "\"*\" covers every resource with its subresources".to_owned(),
            name => format!("name them: {name}/status, {name}/log, ...; \"*\" covers all resources with subresources"),
        };
        told.never(path, "covers nothing: all subresources of a resource cannot be named", hint);
    } else if lower != name {
        let name = plural.unwrap_or(&lower);
        told.never(path, "resources are lower-case plurals", format!("write {}", with_sub(name)));
    } else if let Some(plural) = plural {
        told.never(path, "resources are told by their plural, in full", format!("write {}", with_sub(plural)));
    } else if let Some((name, group)) = name.split_once('.') {
        told.never(path, "holds a group", format!("write {}, and {group} into apiGroups", with_sub(name)));
    }
}

fn group(text: &str, path: String, told: &mut Told) {
    if text == "core" {
        told.never(path, "there is no group of this name", "the core group is \"\"");
    } else if text == "v1" {
        told.never(path, "is a version, not a group", "the core group is \"\"");
    } else if let Some((group, _)) = text.split_once('/') {
        told.never(path, "is a group and a version", format!("write {group}; a version goes into apiVersions"));
    } else if text.bytes().any(|c| c.is_ascii_uppercase()) {
        told.never(path, "groups are lower-case", format!("write {}", text.to_ascii_lowercase()));
    }
}

//! Discovery in its old, unaggregated form, which every client still understands.

use serde_json::{Value, json};

use crate::resources::{KEPT, REVIEWS, group_version};

/// /api.
pub(crate) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// /apis.
pub(crate) fn groups() -> Value {
    let list: Vec<Value> = names().into_iter().map(group_entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})
}

/// /apis/<group>.
pub(crate) fn group(name: &str) -> Option<Value> {
    let known = names().into_iter().find(|known| *known == name)?;
    let mut entry = group_entry(known);
    let object = entry.as_object_mut()?;
    object.insert("kind".to_owned(), json!("APIGroup"));
    object.insert("apiVersion".to_owned(), json!("v1"));
    Some(entry)
}

/// /api/v1 and /apis/<group>/<version>.
pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    if version != "v1" || !(group.is_empty() || names().contains(&group)) {
        return None;
    }
    let kept = KEPT.iter().filter(|served| served.group == group).map(|served| served.discovery());
    let reviews = REVIEWS.iter().filter(|(of, _, _)| *of == group).map(|(_, plural, kind)| {
        json!({"name": plural, "singularName": kind.to_lowercase(), "namespaced": false, "kind": kind, "verbs": ["create"]})
    });
    let list: Vec<Value> = kept.chain(reviews).chain(subresources(group)).collect();
    let name = group_version(group, version);
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": list}))
}

fn subresources(group: &str) -> Vec<Value> {
    let table = [
        ("pods/attach", "PodAttachOptions"),
        ("pods/exec", "PodExecOptions"),
        ("pods/log", "Pod"),
        ("pods/portforward", "PodPortForwardOptions"),
        ("pods/status", "Pod"),
    ];
    let shown = |(name, kind): &(&str, &str)| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["create", "get"]});
    if group.is_empty() { table.iter().map(shown).collect() } else { Vec::new() }
}

fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        KEPT.iter().map(|served| served.group).chain(REVIEWS.iter().map(|entry| entry.0)).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    names
}

fn group_entry(name: &str) -> Value {
    let version = json!({"groupVersion": group_version(name, "v1"), "version": "v1"});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

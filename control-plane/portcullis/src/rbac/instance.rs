use std::collections::BTreeSet;

use portcullis_api::{Problem, SelectedLabels};
use portcullis_instances::{JudgedInstance, judge_instances, text_labels_of};
use portcullis_sources::ObjectSet;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The permissions of the tenant of an instance: to read its `Instance`, and to read and edit those `UpstreamClusters` of the files
/// that belong to it, by their names. No Secret is among them, no object without a name, and no right to create one or to write a
/// status: a name that is not listed is another tenant's, or may be soon.
pub(super) fn manifests(instance: &str, clusters: &[String], user: Option<&str>) -> [Value; 2] {
    let name = format!("portcullis-instance-{instance}");
    let (group, own_group) = ("proxy.kubegateway.io", "portcullis.dev");
    let read = ["get", "list", "watch"];
    let mut rules = vec![
        json!({"apiGroups": [own_group], "resources": ["instances"], "resourceNames": [instance], "verbs": read}),
        json!({"apiGroups": [own_group], "resources": ["instances/status"], "resourceNames": [instance], "verbs": ["get"]}),
    ];
    // A rule without names is one of all names.
    if !clusters.is_empty() {
        let verbs = ["get", "list", "watch", "update", "patch"];
        rules.push(
            json!({"apiGroups": [group], "resources": ["upstreamclusters"], "resourceNames": clusters, "verbs": verbs}),
        );
        rules.push(json!({
            "apiGroups": [group], "resources": ["upstreamclusters/status"], "resourceNames": clusters, "verbs": ["get"],
        }));
    }
    let subject = match user {
        Some(user) => json!({"apiGroup": RBAC, "kind": "User", "name": user}),
        None => json!({"apiGroup": RBAC, "kind": "Group", "name": format!("portcullis:instance:{instance}")}),
    };
    let metadata = json!({"name": name});
    [
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}, "subjects": [subject],
        }),
    ]
}

/// The clusters of the files that an instance selects, each once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SelectedClusters {
    /// Those that no other instance selects: they belong to it.
    pub(super) own: Vec<String>,
    /// Those that others select as well. Files do not say which one has them: an owner stays, whichever is older.
    pub(super) contested: Vec<String>,
}

/// An instance that is refused: without it is not known what the others have.
#[derive(Debug)]
pub(super) struct RefusedInstance {
    pub(super) name: String,
    pub(super) problem: Problem,
}

/// The clusters that an instance selects; `None` if it is not among the files. `reserved` is the `instance` of the settings.
pub(super) fn selected(
    objects: &[ObjectSet],
    instance: &str,
    reserved: &str,
) -> Result<Option<SelectedClusters>, RefusedInstance> {
    let documents = objects.iter().flat_map(|set| &set.instances);
    let judged = judge_instances(documents.map(AsRef::as_ref), reserved);
    let (mut is_there, mut own, mut others) = (false, None, Vec::new());
    for JudgedInstance { name, outcome, .. } in judged {
        let checked = outcome.map_err(|problems| {
            let problem = problems.into_iter().next().unwrap_or_else(|| Problem::new("", "is not valid"));
            RefusedInstance { name: name.clone(), problem }
        })?;
        if name == instance {
            is_there = true;
            own = checked.clusters;
        } else {
            others.extend(checked.clusters);
        }
    }
    Ok(is_there.then(|| own.map_or_else(SelectedClusters::none, |own| SelectedClusters::of(objects, &own, &others))))
}

impl SelectedClusters {
    /// Those of no files.
    pub(super) fn none() -> Self {
        Self { own: Vec::new(), contested: Vec::new() }
    }

    fn of(objects: &[ObjectSet], selector: &SelectedLabels, others: &[SelectedLabels]) -> Self {
        let (mut own, mut contested) = (BTreeSet::new(), BTreeSet::new());
        for document in objects.iter().flat_map(|set| &set.clusters) {
            let Some(labels) = text_labels_of(document) else { continue };
            let Some(name) = document.pointer("/metadata/name").and_then(Value::as_str) else { continue };
            if !selector.selects(&labels) {
                continue;
            }
            let is_contested = others.iter().any(|other| other.selects(&labels));
            let list = if is_contested { &mut contested } else { &mut own };
            list.insert(name.to_owned());
        }
        let own = own.difference(&contested).cloned().collect();
        Self { own, contested: contested.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_has_rights_of_named_objects_alone() {
        for clusters in [vec![], vec!["a.test".to_owned()]] {
            let [role, binding] = manifests("team-a", &clusters, None);
            let rules = role["rules"].as_array().unwrap();
            assert_eq!(rules.len(), 2 + 2 * clusters.len());
            for rule in rules {
                assert!(!rule["resourceNames"].as_array().unwrap().is_empty(), "{rule}");
                let verbs = rule["verbs"].as_array().unwrap();
                assert!(
                    !verbs.iter().any(|verb| ["create", "delete", "*"].contains(&verb.as_str().unwrap())),
                    "{rule}"
                );
                let is_status = rule["resources"][0].as_str().unwrap().ends_with("/status");
                assert!(!is_status || verbs.len() == 1, "{rule}");
            }
            assert_eq!(binding["subjects"][0]["name"], "portcullis:instance:team-a");
            assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        }
    }

    fn document(kind: &str, name: &str, fields: Value) -> std::sync::Arc<Value> {
        let group = if kind == "Instance" { "portcullis.dev" } else { "proxy.kubegateway.io" };
        let mut document = json!({
            "apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": {"name": name}, "spec": {},
        });
        document.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        document.into()
    }

    fn of_labels(name: &str, labels: Value) -> std::sync::Arc<Value> {
        document("UpstreamCluster", name, json!({"metadata": {"name": name, "labels": labels}}))
    }

    fn selecting(name: &str, selector: Value) -> std::sync::Arc<Value> {
        document("Instance", name, json!({"spec": {"clustersSelector": selector}}))
    }

    #[test]
    fn tenant_has_no_rights_of_what_others_select_too() {
        let team = |name: &str| json!({"matchLabels": {"team": name}});
        let clusters = vec![
            of_labels("a.test", json!({"team": "a"})),
            of_labels("b.test", json!({"team": "b"})),
            of_labels("both.test", json!({"team": "a", "shared": "yes"})),
        ];
        let of_shared = selecting("z", json!({"matchLabels": {"shared": "yes"}}));
        let unset = document("Instance", "unset", json!({}));
        let sets = |instances: Vec<std::sync::Arc<Value>>| {
            // In files of their own.
            let clusters = ObjectSet { clusters: clusters.clone(), ..ObjectSet::default() };
            [ObjectSet { instances, ..ObjectSet::default() }, clusters]
        };
        let all = vec![selecting("a", team("a")), selecting("b", team("b")), of_shared, unset];
        for (instance, own, contested) in [
            ("a", &["a.test"][..], &["both.test"][..]),
            ("b", &["b.test"], &[]),
            ("z", &[], &["both.test"]),
            ("unset", &[], &[]),
        ] {
            let found = selected(&sets(all.clone()), instance, "portcullis").unwrap().unwrap();
            assert_eq!((found.own, found.contested), (owned(own), owned(contested)), "{instance}");
        }
        assert_eq!(selected(&sets(all), "gone", "portcullis").unwrap(), None);
        for wrong in ["wrong", "portcullis", "a"] {
            let all = vec![selecting("a", team("a")), selecting(wrong, json!({"matchFields": []}))];
            assert_eq!(selected(&sets(all), "a", "portcullis").unwrap_err().name, wrong);
        }
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }
}

use portcullis_api::SelectedLabels;
use portcullis_instances::labels_of;
use portcullis_sources::ObjectSet;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The permissions of the tenant of an instance: to read its `Instance`, and to read and edit those `UpstreamClusters` of the files
/// that it selects, by their names. No Secret is among them, no object without a name, and no right to create one or to write a
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

/// The names of the clusters in files that a selector selects, each once.
pub(super) fn selected(objects: &[ObjectSet], selector: &SelectedLabels) -> Vec<String> {
    let documents =
        objects.iter().flat_map(|set| &set.clusters).filter(|document| selector.selects(&labels_of(document)));
    let named = documents.filter_map(|document| document.pointer("/metadata/name")?.as_str());
    let names: std::collections::BTreeSet<&str> = named.collect();
    names.into_iter().map(str::to_owned).collect()
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
}

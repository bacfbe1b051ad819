use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::own_objects::OwnObjects;

const RBAC: &str = "rbac.authorization.k8s.io";
const READ: [&str; 3] = ["get", "list", "watch"];

/// The permissions of the tenant of an instance: to read its `Instance` and the settings that it names, to read and edit those
/// `UpstreamClusters` of the files that belong to it, and to read its Gateways, by their names. No Secret is among them, no object
/// without a name, and no right to create one or to write a status: a name that is not listed is another tenant's, or may be soon.
pub(super) fn manifests(instance: &str, own: &OwnObjects, user: Option<&str>) -> Vec<Value> {
    let name = format!("portcullis-instance-{instance}");
    let (group, own_group) = ("proxy.kubegateway.io", "portcullis.dev");
    let mut rules = vec![
        json!({"apiGroups": [own_group], "resources": ["instances"], "resourceNames": [instance], "verbs": READ}),
        json!({"apiGroups": [own_group], "resources": ["instances/status"], "resourceNames": [instance], "verbs": ["get"]}),
    ];
    if let Some(settings) = &own.settings {
        rules.push(json!({
            "apiGroups": [own_group], "resources": ["gatewaysettings"], "resourceNames": [settings], "verbs": READ,
        }));
    }
    let clusters = &own.clusters;
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
    let bound = |kind: &str, metadata: &Value, rules: &[Value]| {
        [
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules}),
            json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}, "subjects": [subject],
            }),
        ]
    };
    let of_cluster = bound("ClusterRole", &json!({"name": name}), &rules);
    let of_namespaces = own.gateways.iter().flat_map(|(namespace, names)| {
        // One without rules takes the place of a Role from before.
        let rules: Vec<Value> = (!names.is_empty()).then(|| gateways_rule(names)).into_iter().collect();
        bound("Role", &json!({"namespace": namespace, "name": name}), &rules)
    });
    of_cluster.into_iter().chain(of_namespaces).collect()
}

fn gateways_rule(names: &BTreeSet<String>) -> Value {
    json!({"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gateways"], "resourceNames": names, "verbs": READ})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(clusters: &[&str], gateways: &[(&str, &str)], settings: Option<&str>) -> OwnObjects {
        let mut own = OwnObjects {
            clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
            settings: settings.map(str::to_owned),
            ..OwnObjects::default()
        };
        for (namespace, name) in gateways {
            own.gateways.entry((*namespace).to_owned()).or_default().insert((*name).to_owned());
        }
        own.gateways.entry("left".to_owned()).or_default();
        own
    }

    #[test]
    fn tenant_has_rights_of_named_objects_alone() {
        for (own, count) in [
            (own(&[], &[], None), 2),
            (own(&["a.test"], &[], None), 4),
            (own(&["a.test"], &[("infra", "edge"), ("infra", "inner"), ("team-a", "edge")], Some("team-a")), 5),
        ] {
            let found = manifests("team-a", &own, None);
            assert_eq!(found[0]["rules"].as_array().unwrap().len(), count);
            assert_eq!(found.len(), 2 + 2 * own.gateways.len());
            let left =
                found.iter().find(|one| one["kind"] == "Role" && one["metadata"]["namespace"] == "left").unwrap();
            assert_eq!(left["rules"], json!([]), "it has no Gateway of the tenant any more");
            let rules = found.iter().filter_map(|one| one["rules"].as_array()).flatten();
            for rule in rules {
                assert!(!rule["resourceNames"].as_array().unwrap().is_empty(), "{rule}");
                let verbs = rule["verbs"].as_array().unwrap();
                assert!(
                    !verbs.iter().any(|verb| ["create", "delete", "*"].contains(&verb.as_str().unwrap())),
                    "{rule}"
                );
                let resource = rule["resources"][0].as_str().unwrap();
                assert!(!resource.ends_with("/status") || verbs.len() == 1, "{rule}");
                assert!(verbs.len() <= 3 || resource == "upstreamclusters", "others are read alone: {rule}");
            }
            for pair in found.chunks(2) {
                let [role, binding] = pair else { panic!("a role has its binding: {pair:?}") };
                assert_eq!(binding["subjects"][0]["name"], "portcullis:instance:team-a");
                assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
                assert_eq!(binding["roleRef"]["kind"], role["kind"]);
                assert_eq!(binding["metadata"], role["metadata"]);
            }
        }
    }
}

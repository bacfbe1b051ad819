use std::collections::{BTreeMap, BTreeSet};

use portcullis_api::{CheckedInstance, Problem, SelectedLabels};
use portcullis_instances::{JudgedInstance, judge_instances, text_labels_of};
use portcullis_sources::ObjectSet;
use serde_json::Value;

/// The objects of the files on which the tenant of an instance has rights, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OwnObjects {
    /// `UpstreamClusters` that no other instance selects: they belong to it.
    pub(super) clusters: BTreeSet<String>,
    /// Gateways that no other instance selects, by namespace: each namespace of the files that has a Gateway.
    pub(super) gateways: BTreeMap<String, BTreeSet<String>>,
    /// The `GatewaySettings` that it names, if they are not those of all.
    pub(super) settings: Option<String>,
    /// Clusters and Gateways that others select as well. Files do not say which one has them: an owner stays, whichever is older.
    pub(super) contested: BTreeSet<String>,
}

/// An instance that is refused: without it is not known what the others have.
#[derive(Debug)]
pub(super) struct RefusedInstance {
    pub(super) name: String,
    pub(super) problem: Problem,
}

/// The objects of an instance; `None` if it is not among the files. `reserved` is the `instance` of the settings, and `of_all` the name
/// of the settings of all, if it was given.
pub(super) fn own_objects(
    objects: &ObjectSet,
    instance: &str,
    (reserved, of_all): (&str, Option<&str>),
) -> Result<Option<OwnObjects>, RefusedInstance> {
    let judged = judge_instances(objects.instances.iter().map(AsRef::as_ref), reserved);
    let (mut own, mut others) = (None, Vec::new());
    for JudgedInstance { name, outcome, .. } in judged {
        let checked = outcome.map_err(|problems| {
            let problem = problems.into_iter().next().unwrap_or_else(|| Problem::new("", "is not valid"));
            RefusedInstance { name: name.clone(), problem }
        })?;
        if name == instance {
            own = Some(checked);
        } else {
            others.push(checked);
        }
    }
    Ok(own.map(|own| OwnObjects::of(objects, &own, &others, of_all)))
}

/// The selector of one kind.
type SelectorOf = fn(&CheckedInstance) -> Option<&SelectedLabels>;

impl OwnObjects {
    fn of(objects: &ObjectSet, own: &CheckedInstance, others: &[CheckedInstance], of_all: Option<&str>) -> Self {
        let mut found = Self::default();
        let named = |document: &Value, field: &str| {
            document.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).map(str::to_owned)
        };
        let whose = |document: &Value, selector: SelectorOf| whose(document, own, others, selector);
        for document in &objects.clusters {
            match (named(document, "name"), whose(document, |one| one.clusters.as_ref())) {
                (Some(name), Some(Whose::Own)) => {
                    found.clusters.insert(name);
                }
                (Some(name), Some(Whose::Contested)) => {
                    found.contested.insert(format!("UpstreamCluster {name}"));
                }
                _ => {}
            }
        }
        let is_gateway = |document: &&Value| {
            let group =
                document.get("apiVersion").and_then(Value::as_str).and_then(|version| version.split('/').next());
            document.get("kind").and_then(Value::as_str) == Some("Gateway")
                && group == Some("gateway.networking.k8s.io")
        };
        for document in objects.others.iter().map(AsRef::as_ref).filter(is_gateway) {
            // Without a namespace in its file it may be in any.
            let Some(namespace) = named(document, "namespace") else { continue };
            found.gateways.entry(namespace.clone()).or_default();
            match (named(document, "name"), whose(document, |one| one.gateways.as_ref())) {
                (Some(name), Some(Whose::Own)) => {
                    found.gateways.entry(namespace).or_default().insert(name);
                }
                (Some(name), Some(Whose::Contested)) => {
                    found.contested.insert(format!("Gateway {namespace}/{name}"));
                }
                _ => {}
            }
        }
        // An object that is there twice may have other labels each time.
        let OwnObjects { clusters, gateways, contested, .. } = &mut found;
        clusters.retain(|name| !contested.contains(&format!("UpstreamCluster {name}")));
        for (namespace, names) in gateways.iter_mut() {
            names.retain(|name| !contested.contains(&format!("Gateway {namespace}/{name}")));
        }
        let is_of_all = |name: &String| {
            Some(name.as_str()) == of_all
                || objects.settings.iter().any(|one| named(one, "name").as_ref() == Some(name))
        };
        found.settings = own.settings.clone().filter(|name| !is_of_all(name));
        found
    }
}

/// Whether one instance selects an object alone.
enum Whose {
    Own,
    Contested,
}

fn whose(document: &Value, own: &CheckedInstance, others: &[CheckedInstance], selector: SelectorOf) -> Option<Whose> {
    let labels = text_labels_of(document)?;
    let selects = |one: &CheckedInstance| selector(one).is_some_and(|selector| selector.selects(&labels));
    let is_contested = || others.iter().any(selects);
    selects(own).then(|| if is_contested() { Whose::Contested } else { Whose::Own })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn document(kind: &str, metadata: Value, spec: Value) -> Arc<Value> {
        let version = match kind {
            "Instance" => "portcullis.dev/v1alpha1",
            "Gateway" => "gateway.networking.k8s.io/v1",
            _ => "proxy.kubegateway.io/v1alpha1",
        };
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}).into()
    }

    fn cluster(name: &str, labels: Value) -> Arc<Value> {
        document("UpstreamCluster", json!({"name": name, "labels": labels}), json!({}))
    }

    fn gateway(namespace: &str, name: &str, labels: Value) -> Arc<Value> {
        document("Gateway", json!({"namespace": namespace, "name": name, "labels": labels}), json!({}))
    }

    fn selecting(name: &str, selector: Value) -> Arc<Value> {
        document("Instance", json!({"name": name}), json!({"clustersSelector": selector, "gatewaysSelector": selector}))
    }

    fn team(name: &str) -> Value {
        json!({"matchLabels": {"team": name}})
    }

    fn set(instances: Vec<Arc<Value>>) -> ObjectSet {
        let (a, both) = (json!({"team": "a"}), json!({"team": "a", "shared": "yes"}));
        ObjectSet {
            clusters: vec![
                cluster("a.test", a.clone()),
                cluster("b.test", json!({"team": "b"})),
                cluster("both.test", both.clone()),
            ],
            others: vec![
                gateway("infra", "edge", a.clone()),
                gateway("infra", "both", both),
                gateway("team-a", "own", a.clone()),
                document("UpstreamCluster", json!({"name": "edge", "labels": a}), json!({})),
            ],
            instances,
            ..ObjectSet::default()
        }
    }

    #[test]
    fn tenant_has_no_rights_of_what_others_select_too() {
        let of_shared = selecting("z", json!({"matchLabels": {"shared": "yes"}}));
        let unset = document("Instance", json!({"name": "unset"}), json!({}));
        let all = vec![selecting("a", team("a")), selecting("b", team("b")), of_shared, unset];
        let both = ["Gateway infra/both", "UpstreamCluster both.test"];
        for (instance, clusters, gateways, contested) in [
            ("a", &["a.test"][..], &["infra/edge", "team-a/own"][..], &both[..]),
            ("b", &["b.test"], &[], &[]),
            ("z", &[], &[], &both),
            ("unset", &[], &[], &[]),
        ] {
            let found = own_objects(&set(all.clone()), instance, ("portcullis", None)).unwrap().unwrap();
            let names =
                found.gateways.iter().flat_map(|(space, names)| names.iter().map(move |one| format!("{space}/{one}")));
            assert_eq!(names.collect::<Vec<_>>(), gateways, "{instance}");
            assert!(found.clusters.iter().eq(clusters), "{instance}: {found:?}");
            assert!(found.contested.iter().eq(contested), "{instance}: {found:?}");
        }
        assert_eq!(own_objects(&set(all), "gone", ("portcullis", None)).unwrap(), None);
        for wrong in ["wrong", "portcullis", "a"] {
            let all = vec![selecting("a", team("a")), selecting(wrong, json!({"matchFields": []}))];
            assert_eq!(own_objects(&set(all), "a", ("portcullis", None)).unwrap_err().name, wrong);
        }
    }

    #[test]
    fn tenant_reads_settings_that_are_not_those_of_all() {
        let named =
            |settings: &str| set(vec![document("Instance", json!({"name": "a"}), json!({"settings": settings}))]);
        let of_all = json!({"metadata": {"name": "all"}});
        for (settings, given, expected) in [
            ("own", None, Some("own")),
            ("all", None, None),
            ("given", Some("given"), None),
            ("own", Some("given"), Some("own")),
        ] {
            let objects = ObjectSet { settings: vec![of_all.clone()], ..named(settings) };
            let found = own_objects(&objects, "a", ("portcullis", given)).unwrap().unwrap();
            assert_eq!(found.settings.as_deref(), expected, "{settings} {given:?}");
        }
    }
}

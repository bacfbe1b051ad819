use std::time::Duration;

use portcullis_harness::kube::{KubeOptions, Kubectl, RealKube};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::rendered::{ENVOYS, Rendered, documents};
use crate::fixture::BareKube;

const SOON: Duration = Duration::from_secs(20);

/// A Kubernetes without anything of ours.
pub(super) struct Cluster {
    pub(super) kube: RealKube,
    cache: std::path::PathBuf,
    pub(super) run: RunDir,
}

impl Cluster {
    pub(super) fn start(test: &str) -> Option<Self> {
        let BareKube { kube, run, cache, .. } = BareKube::start(test, KubeOptions::default())?;
        Some(Cluster { kube, cache, run })
    }

    pub(super) fn kubectl(&self, args: &[&str]) -> Kubectl {
        self.kube.admin_kubectl().unwrap().cache_dir(&self.cache).args(args)
    }

    /// Applies text; a field that the server does not know, and a warning, is a failure.
    pub(super) fn apply(&self, name: &str, text: &str) {
        let file = self.run.write(&format!("{name}.yaml"), text).unwrap();
        let told = self.kubectl(&["apply", "--server-side", "--validate=strict", "-f", file.to_str().unwrap()]);
        let told = told.run().unwrap();
        assert!(told.success() && told.stderr.is_empty(), "{name}: {}", told.stderr);
    }

    pub(super) fn apply_rendered(&self, directory: &str) -> Rendered {
        let rendered = Rendered::of(directory).unwrap();
        self.apply(&directory.replace('/', "-"), &rendered.text);
        rendered
    }

    /// With the level of `base/namespace.yaml`; one that is there stays.
    pub(super) fn make_namespace(&self, name: &str) {
        let level = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": level}});
        self.apply(&format!("namespace-{name}"), &object.to_string());
    }

    pub(super) fn stored(&self, object: &Value) -> Value {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let group = object["apiVersion"].as_str().unwrap().rsplit_once('/').map_or("", |(group, _)| group);
        let group = group.split('/').next().unwrap();
        let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        self.kubectl(&["get", &kind, name, "-n", namespace]).json().unwrap()
    }

    pub(super) fn wait_kind(&self, plural: &str) {
        wait::until("the kind is served", SOON, || {
            self.kubectl(&["get", plural]).run().unwrap().success().then_some(())
        })
        .unwrap();
    }
}

/// The paths at which a stored object lacks a written field, or has another value.
fn lost(written: &Value, stored: &Value, path: &str, found: &mut Vec<String>) {
    match (written, stored) {
        (Value::Object(fields), Value::Object(kept)) => {
            for (name, value) in fields {
                lost(value, kept.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}"), found);
            }
        }
        (Value::Array(items), Value::Array(kept)) if items.len() == kept.len() => {
            for (index, (item, one)) in items.iter().zip(kept).enumerate() {
                lost(item, one, &format!("{path}[{index}]"), found);
            }
        }
        _ if written == stored => {}
        _ => found.push(format!("{path}: {written} became {stored}")),
    }
}

#[test]
fn kube_apiserver_stores_every_word_of_it() {
    let Some(cluster) = Cluster::start("deploy") else { return };
    for directory in ["base", "target/impersonate", "target/request-header"] {
        nothing_is_lost(&cluster, directory);
    }
    pods_are_admitted(&cluster, &Rendered::of("base").unwrap());
    cluster.wait_kind("upstreamclusters");
    for example in ["impersonate", "request-header"] {
        let path = portcullis_harness::project_root().join(format!("deploy/kubernetes/examples/{example}.yaml"));
        let text = std::fs::read_to_string(path).unwrap();
        cluster.apply(example, &text);
        let mut found = Vec::new();
        let written = &documents(&text)[0];
        lost(written, &cluster.stored(written), example, &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

fn nothing_is_lost(cluster: &Cluster, directory: &str) {
    let rendered = cluster.apply_rendered(directory);
    is_stored(cluster, &rendered, directory);
}

/// Each field of each object, by one question for all.
pub(super) fn is_stored(cluster: &Cluster, rendered: &Rendered, what: &str) {
    let file = cluster.run.write("stored.yaml", &rendered.text).unwrap();
    let stored = cluster.kubectl(&["get", "-f", file.to_str().unwrap()]).json().unwrap();
    let stored = stored["items"].as_array().unwrap();
    assert_eq!(stored.len(), rendered.objects.len(), "{what}");
    let mut found = Vec::new();
    for (object, stored) in rendered.objects.iter().zip(stored) {
        let path = format!("{} {}", object["kind"], object["metadata"]["name"]);
        lost(object, stored, &path, &mut found);
    }
    assert!(found.is_empty(), "{what}: {}", found.join("\n"));
}

/// By the definitions of cert-manager and of the Prometheus operator themselves.
#[test]
fn others_definitions_take_every_word_of_it() {
    let Some(definitions) = deps::or_skip("definitions", deps::definitions()).unwrap() else { return };
    let Some(cluster) = Cluster::start("deploy-complete") else { return };
    cluster.kubectl(&["create", "--validate=strict", "-f", definitions.to_str().unwrap()]).run_ok().unwrap();
    for plural in ["certificates", "issuers", "servicemonitors", "prometheusrules"] {
        cluster.wait_kind(plural);
    }
    nothing_is_lost(&cluster, "overlays/complete");
    nothing_is_lost(&cluster, ENVOYS);
    pods_are_admitted(&cluster, &Rendered::of(ENVOYS).unwrap());
}

/// No controller makes pods here; the server judges what one would make, by the namespace's own level, `restricted`.
pub(super) fn pods_are_admitted(cluster: &Cluster, rendered: &Rendered) {
    for deployment in rendered.all("Deployment") {
        let template = &deployment["spec"]["template"];
        let mut pod = template.clone();
        (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
        pod["metadata"]["name"] = "judged".into();
        pod["metadata"]["namespace"] = rendered.names.namespace.as_str().into();
        let create = |pod: &Value| {
            let file = cluster.run.write("pod.json", pod.to_string()).unwrap();
            cluster.kubectl(&["create", "--dry-run=server", "-f", file.to_str().unwrap()]).run().unwrap()
        };
        let told = create(&pod);
        assert!(told.success() && told.stderr.is_empty(), "{}", told.stderr);
        // That the server judges at all.
        pod["spec"]["securityContext"]["runAsNonRoot"] = false.into();
        let told = create(&pod);
        assert!(!told.success() && told.stderr.contains("violates PodSecurity"), "{}", told.stderr);
    }
}

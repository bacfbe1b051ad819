//! Releases at a real kube-apiserver. No controller is there: nothing waits for pods.

use portcullis_harness::{deps, project_root};
use serde_json::{Value, json};

use super::helm::{DEFAULT, Helm, Release, chart};
use crate::deploy::apply::{Cluster, is_stored};

const CRD: &str = "upstreamclusters.proxy.kubegateway.io";

fn started(test: &str) -> Option<(Cluster, Helm)> {
    let helm = Helm::find(test)?;
    let cluster = Cluster::start(&format!("chart-{test}"))?;
    let helm = helm.at(&cluster);
    Some((cluster, helm))
}

fn get(cluster: &Cluster, args: &[&str]) -> Value {
    cluster.kubectl(&[&["get"], args].concat()).json().unwrap()
}

fn is_there(cluster: &Cluster, args: &[&str]) -> bool {
    cluster.kubectl(&[&["get"], args].concat()).run().unwrap().success()
}

fn replicas(cluster: &Cluster) -> Value {
    get(cluster, &["deployment", "portcullis-gateway", "-n", "portcullis"])["spec"]["replicas"].clone()
}

fn install<'a>(release: Release<'a>, chart: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    Helm::release("install", release, &[&[chart, "--create-namespace"], args].concat())
}

#[test]
fn release_is_installed_upgraded_rolled_back_and_removed() {
    let Some((cluster, helm)) = started("lifecycle") else { return };
    let chart = chart();
    let notes = helm.ok(&install(DEFAULT, &chart, &[]));
    assert!(notes.contains("NO IMAGE") && notes.contains("*.gateway.portcullis"), "{notes}");
    is_stored(&cluster, &helm.render(DEFAULT, &json!({})), "installed");
    cluster.wait_kind("upstreamclusters");
    let example = project_root().join("deploy/kubernetes/examples/impersonate.yaml");
    cluster.apply("example", &std::fs::read_to_string(example).unwrap());
    let identity = get(&cluster, &["crd", CRD])["metadata"]["uid"].clone();
    upgraded_and_rolled_back(&cluster, &helm);
    autoscaling_keeps_the_replicas(&cluster, &helm);
    notes_name_the_definition_that_policies_wait_for(&cluster, &helm);
    helm.ok(&Helm::release("upgrade", DEFAULT, &[&chart, "--set", "crds.install=false"]));
    assert!(is_there(&cluster, &["upstreamcluster", "prod.example.com"]));
    helm.ok(&Helm::release("uninstall", DEFAULT, &[]));
    for kind in ["deployments", "services", "configmaps", "networkpolicies", "roles", "poddisruptionbudgets"] {
        let left = get(&cluster, &[kind, "-n", "portcullis", "-l", "app.kubernetes.io/instance=portcullis"]);
        assert_eq!(left["items"], json!([]), "{kind}");
    }
    assert!(!is_there(&cluster, &["clusterrole", "portcullis-control-plane"]));
    assert!(is_there(&cluster, &["upstreamcluster", "prod.example.com"]));
    // The definition that is left becomes this release's again.
    helm.ok(&install(DEFAULT, &chart, &[]));
    assert_eq!(get(&cluster, &["crd", CRD])["metadata"]["uid"], identity);
    assert!(is_there(&cluster, &["upstreamcluster", "prod.example.com"]));
}

/// By a chart with another definition.
fn upgraded_and_rolled_back(cluster: &Cluster, helm: &Helm) {
    let newer = helm.copy_of_chart();
    let path = newer.join("files/crd.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, text.replacen("    - uc\n", "    - uc\n    - newer\n", 1)).unwrap();
    let names = || get(cluster, &["crd", CRD])["spec"]["names"]["shortNames"].clone();
    let values = ["--set", "gateway.replicas=5", "--set", "gateway.image.tag=9.9.9"];
    helm.ok(&Helm::release("upgrade", DEFAULT, &[&[newer.to_str().unwrap()], &values[..]].concat()));
    assert_eq!((replicas(cluster), names()), (json!(5), json!(["uc", "newer"])));
    helm.ok(&Helm::release("rollback", DEFAULT, &["1"]));
    assert_eq!((replicas(cluster), names()), (json!(2), json!(["uc"])));
    assert!(is_there(cluster, &["upstreamcluster", "prod.example.com"]));
}

/// Helm owns the field, and a removed field gets its default, 1, unless another manager has set it meanwhile.
fn autoscaling_keeps_the_replicas(cluster: &Cluster, helm: &Helm) {
    let chart = chart();
    let upgrade = |args: &[&str]| helm.ok(&Helm::release("upgrade", DEFAULT, &[&[chart.as_str()], args].concat()));
    upgrade(&["--set", "gateway.autoscaling.enabled=true"]);
    assert_eq!(replicas(cluster), 1);
    upgrade(&["--reset-values"]);
    assert_eq!(replicas(cluster), 2);
    cluster.kubectl(&["scale", "deployment/portcullis-gateway", "--replicas=3", "-n", "portcullis"]).run_ok().unwrap();
    upgrade(&["--set", "gateway.autoscaling.enabled=true"]);
    assert_eq!(replicas(cluster), 3);
    assert!(is_there(cluster, &["horizontalpodautoscaler", "portcullis-gateway", "-n", "portcullis"]));
    upgrade(&["--reset-values", "--force-conflicts"]);
    assert_eq!(replicas(cluster), 2);
}

/// Before the Gateway API is installed, and not afterwards.
fn notes_name_the_definition_that_policies_wait_for(cluster: &Cluster, helm: &Helm) {
    let chart = chart();
    let upgrade = || helm.ok(&Helm::release("upgrade", DEFAULT, &[&chart, "--set", "policies.enabled=true"]));
    let told = upgrade();
    assert!(told.contains("POLICIES WAIT") && told.contains("ReferenceGrant"), "{told}");
    assert!(is_there(cluster, &["clusterrole", "portcullis-policies"]));
    let found = deps::definitions().map(|dir| dir.join("gateway-api"));
    let Some(definitions) = deps::or_skip("the Gateway API", found).unwrap() else { return };
    cluster.kubectl(&["apply", "--server-side", "-f", definitions.to_str().unwrap()]).run_ok().unwrap();
    cluster.wait_kind("referencegrants");
    let told = upgrade();
    assert!(!told.contains("POLICIES WAIT"), "{told}");
}

/// As kustomize leaves it, of another release.
#[test]
fn definition_of_kubectl_is_taken_over_on_request() {
    let Some((cluster, helm)) = started("adopted") else { return };
    let path = project_root().join("deploy/kubernetes/base/crd.yaml");
    let text = std::fs::read_to_string(path).unwrap().replacen("    - uc\n", "    - uc\n    - older\n", 1);
    cluster.apply("definition", &text);
    let chart = chart();
    let told = helm.refused(&install(DEFAULT, &chart, &[]));
    assert!(told.contains("invalid ownership metadata"), "{told}");
    helm.ok(&install(DEFAULT, &chart, &["--take-ownership", "--force-conflicts"]));
    let names = get(&cluster, &["crd", CRD])["spec"]["names"]["shortNames"].clone();
    assert_eq!(names, json!(["uc"]));
}

#[test]
fn releases_of_one_cluster_keep_apart() {
    let Some((cluster, helm)) = started("two") else { return };
    let chart = chart();
    let [first, second, third] =
        [("edge", "a"), ("edge", "b"), ("inner", "a")].map(|(name, namespace)| Release { name, namespace });
    helm.ok(&install(first, &chart, &[]));
    // The definition belongs to one of them, and nothing is half installed.
    let told = helm.refused(&install(second, &chart, &[]));
    assert!(told.contains("CustomResourceDefinition") && told.contains("release-namespace"), "{told}");
    assert_eq!(get(&cluster, &["deployments", "-n", "b"])["items"], json!([]));
    for release in [second, third] {
        helm.ok(&install(release, &chart, &["--set", "crds.install=false"]));
    }
    let roles =
        ["a:edge-portcullis-control-plane", "b:edge-portcullis-control-plane", "a:inner-portcullis-control-plane"];
    assert!(roles.iter().all(|role| is_there(&cluster, &["clusterrole", role])));
    helm.ok(&Helm::release("uninstall", first, &[]));
    assert_eq!(roles.map(|role| is_there(&cluster, &["clusterrole", role])), [false, true, true]);
    assert!(is_there(&cluster, &["crd", CRD]));
    for (name, namespace) in [("edge-portcullis-gateway", "b"), ("inner-portcullis-gateway", "a")] {
        assert!(is_there(&cluster, &["deployment", name, "-n", namespace]));
    }
    // Another release takes it over on request.
    helm.ok(&Helm::release("upgrade", second, &[&chart, "--set", "crds.install=true", "--take-ownership"]));
    let owner = get(&cluster, &["crd", CRD])["metadata"]["annotations"]["meta.helm.sh/release-namespace"].clone();
    assert_eq!(owner, "b");
}

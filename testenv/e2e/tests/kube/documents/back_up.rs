use portcullis_harness::{project_root, wait};
use serde_json::json;

use super::walkthrough::Walkthrough;
use crate::sources::{SOON, printed};

const PAGE: &str = "docs/back-up.md";
const CLUSTER: &str = "/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters/prod.example.com";

/// docs/back-up.md for objects in a kube-apiserver. The snapshots of a store are in `kube/store/snapshot.rs`.
#[test]
fn commands_of_a_back_up_bring_an_object_back() {
    let Some(mut reader) = Walkthrough::start("documents-back-up") else { return };
    let kube = &reader.kube.kube;
    kube.admin_kubectl().unwrap().args(["create", "namespace", "portcullis"]).run_ok().unwrap();
    kube.apply(&reader.kube.run.write("definitions.yaml", printed(&["crd"])).unwrap()).unwrap();
    let example = project_root().join("examples/minimal/prod.yaml");
    wait::until_ok("the kind is served", SOON, || kube.apply(&example)).unwrap();
    let names = json!(["prod.example.com"]);
    kube.patch_status(CLUSTER, &json!({"names": names})).unwrap();
    kube.kubeconfig().identity(kube.admin()).write(&reader.path("admin.kubeconfig")).unwrap();

    reader.open(PAGE, "## Back up (Kubernetes source)", &[]);
    reader.run("portcullis backup");
    reader.run("kubectl get clusterroles");
    let bindings = std::fs::read_to_string(reader.path("rbac.yaml")).unwrap();
    assert!(bindings.contains("name: cluster-admin"), "{bindings}");
    let kube = &reader.kube.kube;
    kube.admin_kubectl().unwrap().args(["delete", "upstreamcluster", "prod.example.com"]).run_ok().unwrap();
    assert!(kube.get(CLUSTER).is_err());

    // The page has the date of another day.
    reader.open(PAGE, "## Restore", &[("portcullis-2026-11-24.json", "portcullis-*.json")]);
    reader.run("portcullis restore");
    let listed = reader.run("kubectl get upstreamclusters");
    assert!(listed.contains("prod.example.com"), "{listed}");
    assert_eq!(reader.kube.kube.get(CLUSTER).unwrap()["status"]["names"], names);

    let policies = project_root().join("examples/policies").display().to_string();
    let tests = format!("{policies}/tests.jsonl");
    reader.open(PAGE, "## Roll back an object", &[("DIR", &policies), ("tests.jsonl", &tests)]);
    reader.run("portcullis check");
    reader.run("portcullis explain");
    reader.end();
}

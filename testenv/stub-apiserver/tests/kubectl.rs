//! The real kubectl works against the stub.
#![cfg(test)]

mod common;

use common::{DEADLINE, Fixture};
use portcullis_harness::deps;
use portcullis_harness::kube::Kubectl;
use portcullis_harness::rundir::RunDir;
use serde_json::json;

#[test]
fn kubectl_commands_work() {
    let Some(binaries) = deps::kube_or_skip("kubectl_commands_work").unwrap() else { return };
    let fixture = Fixture::start(|options| options);
    let run = RunDir::new("stub-kubectl").unwrap();
    let jane = fixture.user("jane", &["dev"]);
    let config = fixture.kubeconfig().identity(&jane).write(&run.join("jane.kubeconfig")).unwrap();
    let token =
        fixture.kubeconfig().token("boss").impersonate("bob", &["g"]).write(&run.join("boss.kubeconfig")).unwrap();
    let kubectl = |args: &[&str]| Kubectl::new(&binaries.kubectl, &config, run.path()).args(args);

    let version = kubectl(&["version"]).run_ok().unwrap();
    assert!(version.contains("Server Version: v1.36.3-stub"), "{version}");
    let none = kubectl(&["get", "pods"]).run().unwrap();
    assert!(none.success() && none.stderr.contains("No resources found"), "{}{}", none.stdout, none.stderr);
    kubectl(&["create", "configmap", "cm", "--from-literal=a=b"]).run_ok().unwrap();
    let maps = kubectl(&["get", "configmaps"]).json().unwrap();
    assert_eq!(maps["items"][0]["data"], json!({"a": "b"}));
    let missing = kubectl(&["get", "configmap", "other"]).run().unwrap();
    assert_eq!(missing.stderr.trim(), "Error from server (NotFound): configmaps \"other\" not found");
    kubectl(&["patch", "cm", "cm", "--type=merge", "-p", r#"{"data":{"a":"c"}}"#]).run_ok().unwrap();
    assert_eq!(kubectl(&["get", "cm", "cm", "-o", "jsonpath={.data.a}"]).run_ok().unwrap(), "c");

    let watch = kubectl(&["get", "pods", "-w", "-o", "name"]).spawn().unwrap();
    kubectl(&["run", "web", "--image=none"]).run_ok().unwrap();
    let seen = || if watch.stdout().contains("pod/web") { Ok(()) } else { Err("") };
    watch.wait_ready("the pod in the watch", DEADLINE, seen).unwrap();
    assert_eq!(kubectl(&["logs", "web"]).run_ok().unwrap(), "line 1\nline 2\n");
    kubectl(&["delete", "pod", "web", "--wait=false"]).run_ok().unwrap();

    let who = kubectl(&["auth", "whoami"]).json().unwrap();
    assert_eq!(who["status"]["userInfo"]["groups"], json!(["dev", "system:authenticated"]));
    let other = Kubectl::new(&binaries.kubectl, &token, run.path()).args(["auth", "whoami"]).json().unwrap();
    assert_eq!(other["status"]["userInfo"], json!({"username": "bob", "groups": ["g", "system:authenticated"]}));
    assert!(kubectl(&["auth", "can-i", "get", "pods"]).run_ok().unwrap().starts_with("yes"));
    let cache = run.join("warm");
    kubectl(&["get", "pods"]).cache_dir(&cache).run_ok().unwrap();
    let refused = kubectl(&["get", "pods", "--as=eve"]).cache_dir(&cache).run().unwrap();
    assert!(refused.stderr.contains("cannot impersonate"), "{}", refused.stderr);
}

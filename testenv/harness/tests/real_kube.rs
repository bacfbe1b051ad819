//! The real Kubernetes works, and kubectl reaches it directly.

#![cfg(test)]

use std::time::{Duration, Instant};

use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::deps;
use portcullis_harness::kube::{Anonymous, KubeOptions, Kubectl, RealKube};
use portcullis_harness::rundir::RunDir;
use serde_json::json;

fn start(test: &str, options: &KubeOptions) -> Option<(RealKube, RunDir)> {
    deps::kube_or_skip(test).unwrap()?;
    let run = RunDir::new(test).unwrap();
    let begin = Instant::now();
    let kube = RealKube::start(&run, "kube", options).unwrap();
    eprintln!("{test}: {} kube-apiserver(s) ready after {:?}", kube.apiservers().len(), begin.elapsed());
    Some((kube, run))
}

#[test]
fn kubectl_is_who_its_certificate_says() {
    let Some((mut kube, run)) = start("whoami", &KubeOptions::default()) else { return };
    let user = kube.client_ca().issue(&CertSpec::client("jane", ["devs", "ops"]).uid("u-1")).unwrap();
    let config = kube.kubeconfig().identity(&user).write(&run.join("jane.kubeconfig")).unwrap();
    let who = kube.kubectl(&config).args(["auth", "whoami"]).json().unwrap();
    let info = &who["status"]["userInfo"];
    assert_eq!(info["username"], "jane");
    assert_eq!(info["uid"], "u-1");
    assert_eq!(info["groups"], json!(["devs", "ops", "system:authenticated"]));
    // RBAC is on: a stranger to it may not list pods, the administrator may.
    let pods = kube.kubectl(&config).args(["get", "pods"]).run().unwrap();
    assert!(!pods.success() && pods.stderr.contains("Forbidden"), "{}", pods.stderr);
    kube.admin_kubectl().unwrap().args(["get", "pods"]).run_ok().unwrap();
    let seen = kube.apiserver(0).unwrap().audit_events_for("/api/v1/namespaces/default/pods").unwrap();
    let users: Vec<_> = seen.iter().map(|event| event["user"]["username"].as_str().unwrap()).collect();
    assert_eq!(users, ["jane", "admin"]);
    // Output of kubectl for a refused impersonation, first without and then with API groups in its cache.
    let cache = run.join("warm");
    kube.kubectl(&config).args(["get", "pods"]).cache_dir(&cache).run().unwrap();
    let cold = kube.kubectl(&config).args(["get", "pods", "--as=eve"]).run().unwrap();
    assert!(cold.stderr.contains("Error from server (Forbidden): unknown"), "{}", cold.stderr);
    let warm = kube.kubectl(&config).args(["get", "pods", "--as=eve"]).cache_dir(&cache).run().unwrap();
    assert!(warm.stderr.contains("cannot impersonate"), "{}", warm.stderr);

    // Service account tokens are real ones.
    let admin = |args: &[&str]| kube.admin_kubectl().unwrap().args(args).run_ok().unwrap();
    admin(&["create", "serviceaccount", "robot"]);
    let token = admin(&["create", "token", "robot"]);
    let config = kube.kubeconfig().token(token.trim()).write(&run.join("robot.kubeconfig")).unwrap();
    let who = kube.kubectl(&config).args(["auth", "whoami"]).json().unwrap();
    assert_eq!(who["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
    let reviewed = |event: &serde_json::Value| event["user"]["username"] == "system:serviceaccount:default:robot";
    kube.apiserver(0).unwrap().wait_audit("the robot's request", Duration::from_secs(10), reviewed).unwrap();

    kube.restart(0).unwrap();
    kube.admin_kubectl().unwrap().args(["get", "namespaces"]).run_ok().unwrap();
    let begin = Instant::now();
    drop(kube);
    eprintln!("whoami: stopped after {:?}", begin.elapsed());
}

#[test]
fn kubectl_words_its_errors_as_the_released_one_does() {
    let Some(binaries) = deps::kube_or_skip("kubectl's errors").unwrap() else { return };
    let run = RunDir::new("kubectl-errors").unwrap();
    let said =
        Kubectl::new(&binaries.kubectl, &run.join("none"), run.path()).args(["get", "--nonsense"]).run().unwrap();
    assert_eq!(said.stderr, "error: unknown flag: --nonsense\nSee 'kubectl get --help' for usage.\n");
    assert_eq!(said.status.code(), Some(1));
}

#[test]
fn two_apiservers_share_a_store() {
    let options = KubeOptions { apiservers: 2, anonymous: Anonymous::HealthOnly, ..KubeOptions::default() };
    let Some((kube, _run)) = start("shared", &options) else { return };
    kube.admin_kubectl().unwrap().args(["create", "configmap", "shared"]).run_ok().unwrap();
    let ask = |index: usize, path: &str, identity: bool| {
        let target =
            TlsTarget::new(kube.address(index).unwrap()).trust(kube.server_ca()).timeout(Duration::from_secs(10));
        let target = if identity { target.identity(kube.admin()) } else { target };
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        target.raw_request(request.as_bytes()).unwrap().status
    };
    assert_eq!(ask(1, "/api/v1/namespaces/default/configmaps/shared", true), 200);
    assert_eq!(ask(1, "/readyz", false), 200);
    assert_eq!(ask(1, "/version", false), 401);
}

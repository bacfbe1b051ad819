use portcullis_harness::wait;
use serde_json::{Value, json};

use super::fixture::{NAME, OnboardFixture, ended};
use crate::sources::{NAMESPACE, SOON};

#[test]
fn certificate_waits_for_the_approval_of_another() {
    let Some(fixture) = OnboardFixture::start("onboard-approval") else { return };
    let bind = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"],
        "verbs": ["get", "create", "patch", "bind", "escalate"]});
    let requests = json!({"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
        "verbs": ["get", "create"]});
    let authorities = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    let person = fixture.user_with("person", &json!([bind, requests, authorities]));
    let output = fixture.source.run.join("objects.yaml");
    let flags = ["--name", NAME, "--kubeconfig", person.to_str().unwrap(), "-o", "yaml", "--namespace", NAMESPACE];
    let process = fixture.spawn("onboard", &flags);
    let line = process
        .wait_ready("the command to approve is printed", SOON, || {
            let log = process.log();
            let found =
                log.lines().find_map(|line| line.split("kubectl certificate approve ").nth(1).map(str::to_owned));
            found.ok_or(log)
        })
        .unwrap();
    assert!(fixture.waiting(false).is_ok());
    fixture.source.admin(&["certificate", "approve", &line]);
    fixture.sign(&process);
    let ended = ended(&process);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    // Objects are alone on standard output; the checks are beside the steps.
    assert!(ended.stderr.contains("streaming") && !ended.stderr.contains("PRIVATE"), "{ended:#?}");
    assert!(ended.stderr.contains("may not watch namespaces"), "{ended:#?}");
    std::fs::write(&output, &ended.stdout).unwrap();
    fixture.source.admin(&["apply", "--server-side", "-f", output.to_str().unwrap()]);
    let check = ["--check", "--name", NAME, "--store-kubeconfig", fixture.admin(), "--namespace", NAMESPACE];
    fixture.run("onboard", &check).is_good();
}

#[test]
fn failed_steps_name_the_person_who_has_to_act() {
    let Some(fixture) = OnboardFixture::start("onboard-failures") else { return };
    let guest = fixture.user_with("guest", &json!([]));
    let store = ["--name", NAME, "--store-kubeconfig", fixture.admin(), "--namespace", NAMESPACE];
    let told = |flags: &[&str], parts: &[&str]| {
        let ended = fixture.run("onboard", &[&store[..], flags].concat());
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        parts.iter().for_each(|part| assert!(ended.stderr.contains(part), "{part}: {ended:#?}"));
    };
    told(&["--kubeconfig", guest.to_str().unwrap()], &["(403)", "lacks this right", "repeating alone does not help"]);
    let unusable = ["--kubeconfig", fixture.admin(), "--server", "http://10.0.0.10:6443"];
    told(
        &unusable,
        &["UpstreamCluster prod.example.com would be refused", "spec.servers[0].endpoint", "correct the arguments"],
    );
    told(&["--kubeconfig", "/none"], &["cannot use the kubeconfig", "name another one"]);
    told(&["--kubeconfig", fixture.admin(), "--servers-from", "endpoints"], &["EndpointSlices", "--server"]);
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "endpoints": [{"addresses": ["10.0.0.11"]}, {"addresses": ["10.0.0.10"]}],
        "ports": [{"name": "https", "port": 6443}]});
    fixture.source.apply(&slice.to_string());
    let dry = [&store[..], &["--kubeconfig", fixture.admin(), "--servers-from", "endpoints", "--dry-run"]].concat();
    let dry = fixture.run("onboard", &dry);
    let servers = "https://10.0.0.10:6443, https://10.0.0.11:6443, certificates for kubernetes.default.svc";
    assert!(dry.code == Some(0) && dry.stderr.contains(servers), "{dry:#?}");

    let target = [&store[..], &["--kubeconfig", fixture.admin()]].concat();
    let process = fixture.spawn("onboard", &[&target[..], &["--no-approve"]].concat());
    let denied: Value = wait::until("a request is there", SOON, || fixture.waiting(false).ok()).unwrap();
    let denied = denied["metadata"]["name"].as_str().unwrap();
    fixture.source.admin(&["certificate", "deny", denied]);
    let ended = ended(&process);
    assert!(ended.code == Some(1) && ended.stderr.contains("denied"), "{ended:#?}");
    let late = fixture.run("onboard", &[&target[..], &["--approval-timeout", "1s"]].concat());
    assert!(late.code == Some(1) && late.stderr.contains("longer --approval-timeout"), "{late:#?}");
    assert!(late.stderr.contains("kube-controller-manager"), "{late:#?}");

    // A conflict is found before a certificate is requested.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": format!("{NAME}-client"), "namespace": NAMESPACE},
        "data": {"tls.crt": "b3RoZXI=", "tls.key": "b3RoZXI="}});
    fixture.source.apply(&secret.to_string());
    let requests = fixture.requests().len();
    told(&["--kubeconfig", fixture.admin()], &["(409)", "--force-conflicts"]);
    assert_eq!(fixture.requests().len(), requests);

    let flags = ["--name", NAME, "--kubeconfig", fixture.admin(), "-o", "yaml"];
    let terminal = fixture.spawn_on_terminal("onboard", &flags);
    assert!(!terminal.wait_exit(SOON).unwrap().success());
    assert!(terminal.stdout().contains("not printed on a terminal"), "{}", terminal.stdout());
    assert_eq!(fixture.requests().len(), requests);

    let usage = fixture.run("onboard", &["--name", NAME, "--kubeconfig", fixture.admin()]);
    assert!(usage.code == Some(2) && usage.stderr.contains("one place for the outcome"), "{usage:#?}");
}

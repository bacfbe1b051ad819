use std::fs;
use std::process::Command;

use portcullis_harness::client::plain;
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::{deps, ports, write_private};
use serde_json::{Value, json};

use super::control_plane::{SOON, object, text};
use super::fixture::{NAMESPACE, SourceFixture, printed};

const ACCOUNT: &str = "portcullis-control-plane";
const NAME: &str = "a.example.com";
/// Binds a directory to the path of a pod's service account, for one program only.
const AS_IN_A_POD: &str = "\
run=$(readlink -f /var/run)
mount -t tmpfs tmpfs \"$run\"
mkdir -p \"$run/secrets/kubernetes.io/serviceaccount\"
cp \"$1\"/* \"$run/secrets/kubernetes.io/serviceaccount/\"
shift
exec \"$@\"";

/// Without user namespaces, no program can have a `/var/run` of its own.
fn can_pretend(test: &str) -> bool {
    let works = Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success());
    assert!(works || !std::env::var("CI").is_ok_and(|ci| ci == "true"), "unshare -rm does not work");
    if !works {
        eprintln!("*** SKIPPED {test}: unshare -rm does not work ***");
    }
    works
}

/// With nothing but what the pod of a service account has, and the rights that are printed for it.
#[test]
fn service_account_is_enough_in_a_pod() {
    if !can_pretend("in-cluster") {
        return;
    }
    let Some(fixture) = SourceFixture::without_rights("in-cluster", &Default::default()) else { return };
    fixture.admin(&["create", "serviceaccount", ACCOUNT, "-n", NAMESPACE]);
    fixture.apply(&printed(&["rbac", "--control-plane", "--namespace", NAMESPACE]));
    // That the namespace is known shows in a Secret of it.
    fixture.admin(&["create", "secret", "generic", "own", "-n", NAMESPACE, "--from-literal=token=some-token"]);
    fixture.admin(&["label", "secret", "own", "-n", NAMESPACE, &format!("portcullis.dev/upstream-cluster={NAME}")]);
    let references = json!({"references": {"token": {"secret": {"name": "own"}}}});
    fixture.apply(&fixture.manifest(NAME).set("/spec/portcullis", references).to_text());

    let account = fixture.run.make_dir("account").unwrap();
    let token = fixture.admin(&["create", "token", ACCOUNT, "-n", NAMESPACE]);
    for (file, content) in
        [("token", token.trim()), ("namespace", NAMESPACE), ("ca.crt", &fixture.kube.server_ca().pem())]
    {
        write_private(&account.join(file), content.as_bytes()).unwrap();
    }
    let api = fixture.kube.apiservers()[0].address();
    let http = ports::free_address().unwrap();
    let socket = tempfile_socket();
    let spec = Spec::new("portcullis", "unshare", &fixture.run.make_dir("plane").unwrap())
        .args(["-rm", "sh", "-ec", AS_IN_A_POD, "sh", text(&account)])
        .arg(deps::portcullis().unwrap())
        .args(["serve", "--source", "kubernetes", "--settings", text(&fixture.settings)])
        .args(["--http-address", &http.to_string(), "--xds-socket", &socket])
        .env("KUBERNETES_SERVICE_HOST", api.ip().to_string())
        .env("KUBERNETES_SERVICE_PORT", api.port().to_string())
        .env_remove("KUBECONFIG");
    let plane = Process::start(spec).unwrap();
    let status = plane.wait_ready("the object is accepted, by whoever leads", SOON, || {
        let status: Value =
            plain::get(http, "/status").and_then(|page| page.json()).map_err(|error| error.to_string())?;
        let is_accepted = object(&status, NAME).is_some_and(|one| one["accepted"] == true);
        if is_accepted && status["source"]["leader"] == true { Ok(status) } else { Err(format!("{status:#}")) }
    });
    let status = status.unwrap();
    assert_eq!((&status["source"]["kind"], &status["source"]["staleSince"]), (&json!("kubernetes"), &Value::Null));
    assert_eq!(plain::get(http, "/readyz").unwrap().status, 200);
    // It may write what became of the object, too.
    fixture.admin(&["wait", "--for=condition=Accepted", "upstreamcluster", NAME, "--timeout=30s"]);
    assert!(!plane.log().contains(token.trim()));
    drop(plane);
    let _ = fs::remove_file(socket);
}

/// Short, because a socket's path may have at most 107 bytes.
fn tempfile_socket() -> String {
    format!("/tmp/pc-x-pod-{}.sock", std::process::id())
}

use std::path::Path;
use std::process::Command;

use portcullis_harness::deps;
use serde_json::json;

use super::fixture::Store;
use super::serving::{Served, apply};

/// The value of a flag in a start script.
fn flag(script: &str, name: &str) -> String {
    let rest = script.split_once(&format!("--{name}='")).unwrap_or_else(|| panic!("no --{name}: {script}")).1;
    rest.split_once('\'').unwrap().0.to_owned()
}

fn run(program: &Path, dir: &Path, arguments: &[&str]) {
    let output = Command::new(program).current_dir(dir).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The commands of docs/back-up.md. Revisions go on behind those that watches know, so a control plane needs no restart.
#[test]
fn snapshot_is_restored_by_etcdutl_with_everything_in_it() {
    let Some(tools) = deps::etcd_tools_or_skip("store-snapshot").unwrap() else { return };
    let Some(mut store) = Store::start("store-snapshot", 1, &[]) else { return };
    let served = Served::start(&store);
    store.kubectl(&["create", "configmap", "kept", "--from-literal=key=value"]).run_ok().unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept", "namespace": "portcullis"},
        "stringData": {"token": "encrypted"},
    });
    apply(&store, &secret);
    let dir = store.first().dir.clone();
    let endpoint = format!("https://{}", store.first().etcd_address);
    let access = ["--cacert", "pki/etcd-ca.crt", "--cert", "pki/etcd-client.pem", "--key", "pki/etcd-client.pem"];
    let save = [&["--endpoints", &endpoint], &access[..], &["snapshot", "save", "store.db"]].concat();
    run(&tools.etcdctl, &dir, &save);
    store.kubectl(&["delete", "configmap", "kept"]).run_ok().unwrap();
    served.add(&store, "later.example.com");

    store.members[0].apiserver.kill();
    store.members[0].etcd.kill();
    std::fs::rename(dir.join("etcd"), dir.join("etcd.before")).unwrap();
    let script = std::fs::read_to_string(dir.join("start/etcd")).unwrap();
    let flags: Vec<String> = ["name", "initial-cluster", "initial-advertise-peer-urls", "initial-cluster-token"]
        .iter()
        .flat_map(|name| [format!("--{name}"), flag(&script, name)])
        .collect();
    let restore =
        ["snapshot", "restore", "store.db", "--data-dir", "etcd", "--bump-revision", "1000000000", "--mark-compacted"];
    let restore: Vec<&str> = restore.into_iter().chain(flags.iter().map(String::as_str)).collect();
    run(&tools.etcdutl, &dir, &restore);
    store.members[0].restart_etcd();
    store.members[0].restart_apiserver();
    store.wait_ready(0);

    let value = store.kubectl(&["get", "configmap", "kept", "-o", "jsonpath={.data.key}"]).run_ok().unwrap();
    assert_eq!(value, "value");
    let token = ["-n", "portcullis", "get", "secret", "kept", "-o", "jsonpath={.data.token}"];
    assert_eq!(store.kubectl(&token).run_ok().unwrap(), "ZW5jcnlwdGVk");
    assert!(!store.kubectl(&["get", "upstreamcluster", "later.example.com"]).run().unwrap().success());
    served.wait_without("later.example.com");
    served.add(&store, "after.example.com");
}

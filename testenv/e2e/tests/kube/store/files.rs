use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::fixture::{LaidOut, Store, cluster, portcullis};

/// Every file below a directory but the data and logs of what runs there.
fn files(dir: &Path, into: &mut BTreeMap<String, (u32, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !(path.join("member").is_dir() || matches!(name, "audit" | "run")) {
            files(&path, into);
        } else if path.is_file() && !name.ends_with(".log") {
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            into.insert(path.display().to_string(), (mode, fs::read(&path).unwrap()));
        }
    }
}

#[test]
fn second_run_on_a_running_store_changes_no_byte() {
    let Some(laid_out) = LaidOut::new("store-again", 1, &[]) else { return };
    laid_out.init(&[]);
    let mut before = BTreeMap::new();
    files(&laid_out.dir, &mut before);
    let store = laid_out.start();
    let applied = store.apply_all();
    assert!(applied.contains("applied CustomResourceDefinition upstreamclusters.proxy.kubegateway.io"), "{applied}");
    let versions = versions(&store);
    assert!(versions.contains("upstreamclusters.proxy.kubegateway.io"), "{versions}");
    store.apply_all();
    let mut after = BTreeMap::new();
    files(&store.dir, &mut after);
    assert!(before == after, "{:?}", after.keys());
    assert_eq!(versions, self::versions(&store), "the objects are not written again");
    for (path, (mode, content)) in &after {
        let is_secret = String::from_utf8_lossy(content).contains("PRIVATE KEY") || path.ends_with(".kubeconfig");
        assert!(!is_secret || *mode == 0o600, "{path}: {mode:o}");
    }
    assert_eq!(store.dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

/// The versions of everything that was applied.
fn versions(store: &Store) -> String {
    let kinds =
        "namespaces,crd,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings";
    let columns = "custom-columns=KIND:.kind,NAME:.metadata.name,GENERATION:.metadata.resourceVersion";
    store.kubectl(&["get", kinds, "-o", columns]).run_ok().unwrap()
}

/// Servers that run read renewed certificates, and old clients are still let in: the CAs stay.
#[test]
fn renewed_certificates_are_served_without_a_restart() {
    let Some(store) = Store::start("store-renew", 1, &[]) else { return };
    let old = store.identity(&store.admin_kubeconfig());
    let served = || store.admin_target(0).connect().unwrap().server_certificates();
    let before = served();
    let text = portcullis(&["init", "--data-dir", store.dir.to_str().unwrap(), "--renew"]);
    assert!(text.contains("wrote members/m1/pki/kube-apiserver.pem") && !text.contains("authority"), "{text}");
    portcullis_harness::wait::until("the new certificate is served", super::fixture::START, || {
        (served() != before).then_some(())
    })
    .unwrap();
    assert_ne!(store.identity(&store.admin_kubeconfig()).leaf_der(), old.leaf_der());
    store.kubectl(&["get", "upstreamclusters"]).run_ok().unwrap();
    let request = b"GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(store.admin_target(0).identity(&old).raw_request(request).unwrap().status, 200);
}

#[test]
fn secrets_and_objects_are_encrypted_in_etcd() {
    let Some(store) = Store::start("store-at-rest", 1, &[]) else { return };
    store
        .kubectl(&["-n", "portcullis", "create", "secret", "generic", "key", "--from-literal=key=plain-text-1"])
        .run_ok()
        .unwrap();
    let cluster = cluster("a.example.com", "https://plain-text-2.example.com");
    let file = store.run.write("cluster.json", cluster.to_string()).unwrap();
    store.kubectl(&["create", "-f", file.to_str().unwrap()]).run_ok().unwrap();
    let all = json!({"key": STANDARD.encode("/registry/"), "range_end": STANDARD.encode("/registry0")});
    let answer = store.etcd(0, "/v3/kv/range", &all);
    let decode = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let mut found = Vec::new();
    for pair in answer["kvs"].as_array().unwrap() {
        let (key, value) = (decode(&pair["key"]), String::from_utf8_lossy(&decode(&pair["value"])).into_owned());
        let key = String::from_utf8(key).unwrap();
        if key.contains("/secrets/portcullis/key") || key.contains("/upstreamclusters/") {
            assert!(value.starts_with("k8s:enc:secretbox:v1:key-1:"), "{key}: {value}");
            assert!(!value.contains("plain-text"), "{key}");
            found.push(key);
        }
    }
    assert_eq!(found.len(), 2, "{found:?}");
}

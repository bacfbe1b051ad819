use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::fixture::{Store, cluster, portcullis};
use super::serving::apply;

const CLUSTERS: &str = "/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters";

fn numbered(number: usize) -> Value {
    cluster(&format!("c{number}.example.com"), "https://a.example.com")
}

/// The objects, without what each store gives them.
fn objects(store: &Store) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [CLUSTERS, "/api/v1/namespaces/portcullis/secrets"] {
        let list = store.get(0, path).unwrap().json().unwrap();
        for one in list["items"].as_array().unwrap() {
            let metadata = json!({"name": one["metadata"]["name"], "labels": one["metadata"]["labels"]});
            all.push(json!([metadata, one["spec"], one["status"], one["data"], one["type"]]));
        }
    }
    all
}

/// More objects than a page of a list, with status, into another store.
#[test]
fn backup_restores_objects_status_and_secrets_in_another_store() {
    let Some(first) = Store::start("store-backup", 1, &[]) else { return };
    let names = json!(["c1.example.com"]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": (0..520).map(numbered).collect::<Vec<_>>()});
    apply(&first, &list);
    let status = json!({"status": {"names": names}}).to_string();
    first
        .kubectl(&["patch", "upstreamcluster", "c1.example.com", "--subresource=status", "--type=merge", "-p", &status])
        .run_ok()
        .unwrap();
    let label = json!({"portcullis.dev/upstream-cluster": "c1.example.com"});
    apply(
        &first,
        &json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "portcullis", "labels": label},
            "stringData": {"token": "secret-of-the-backup"},
        }),
    );
    let file = first.run.join("backup.json");
    let access = |store: &Store| store.admin_kubeconfig().to_str().unwrap().to_owned();
    let text = portcullis(&["backup", "--kubeconfig", &access(&first), "--to", file.to_str().unwrap()]);
    assert!(text.contains("wrote 520 UpstreamClusters and 1 Secrets"), "{text}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let before = objects(&first);
    drop(first.members);

    let second = Store::start("store-restore", 1, &[]).unwrap();
    let restore = || portcullis(&["restore", "--kubeconfig", &access(&second), "--from", file.to_str().unwrap()]);
    let begin = std::time::Instant::now();
    assert!(restore().contains("restored 521 objects"));
    println!("restored 521 objects in {:.1} s", begin.elapsed().as_secs_f64());
    assert_eq!(objects(&second), before);
    restore();
    assert_eq!(objects(&second), before, "a second restore changes nothing");
}

use portcullis_harness::deps::{self, KubeBinaries};
use portcullis_harness::process::Signal;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::fixture::{LaidOut, START, Store, cluster, portcullis};
use super::serving::apply;

/// Releases of kube-apiserver and kubectl, in order, on one directory of data.
const RELEASES: [&str; 3] = ["1.32.13", "1.34.4", "1.37.2"];
const LISTS: [&str; 8] = [
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    "/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/coordination.k8s.io/v1/namespaces/portcullis/leases",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=app.kubernetes.io/managed-by=portcullis-init",
];

/// The objects in the store, without those that a kube-apiserver writes itself when it starts.
fn objects(store: &Store) -> Vec<Value> {
    let mut all = Vec::new();
    for path in LISTS {
        // A kube-apiserver that has just become ready answers 429 until it has read the kind.
        let listed = || match store.get(0, path).unwrap() {
            answer if answer.status == 200 => Ok(answer.json().unwrap()),
            answer => Err(answer.text()),
        };
        let list: Value = wait::until_ok(path, START, listed).unwrap();
        for one in list["items"].as_array().unwrap() {
            let metadata = &one["metadata"];
            if metadata["namespace"] == "kube-system" || metadata["name"] == "kube-root-ca.crt" {
                continue;
            }
            let contents: Vec<&Value> = ["data", "spec", "rules"].iter().map(|part| &one[part]).collect();
            let contents = if path.contains("definitions") { Vec::new() } else { contents };
            all.push(json!([path, metadata["name"], metadata["uid"], contents]));
        }
    }
    all
}

/// Objects of several kinds, named for the release that wrote them.
fn fill(store: &Store, release: &str) {
    let name = release.replace('.', "-");
    store.kubectl(&["create", "configmap", &name, "--from-literal=key=value"]).run_ok().unwrap();
    store.kubectl(&["-n", "portcullis", "create", "serviceaccount", &name]).run_ok().unwrap();
    let secret = ["-n", "portcullis", "create", "secret", "generic", &name, "--from-literal=token=secret"];
    store.kubectl(&secret).run_ok().unwrap();
    apply(store, &cluster(&format!("r{name}.example.com"), "https://a.example.com"));
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "portcullis"},
        "spec": {"holderIdentity": "somebody"},
    });
    apply(store, &lease);
}

fn upgrade(store: &mut Store, binaries: KubeBinaries) {
    store.members[0].apiserver.signal(Signal::Term).unwrap();
    let (dir, path) = (store.dir.to_str().unwrap().to_owned(), binaries.kube_apiserver.to_str().unwrap().to_owned());
    let text = portcullis(&["init", "--data-dir", &dir, "--kube-apiserver", &path]);
    assert!(text.contains("wrote members/m1/start/kube-apiserver"), "{text}");
    store.members[0].restart_apiserver();
    store.binaries = binaries;
    store.apply_all();
}

/// All objects are there with their UIDs, old credentials work, and kubectl of the release reads and writes.
#[test]
#[ignore = "needs three releases of Kubernetes: make test-store-upgrade"]
fn store_is_upgraded_on_its_data_from_1_32_to_1_37() {
    let found = RELEASES.map(deps::kube_release).into_iter().collect();
    let Some(releases): Option<Vec<KubeBinaries>> = deps::or_skip("store-upgrade", found).unwrap() else { return };
    let laid_out = LaidOut::with("store-upgrade", releases[0].clone(), 1, &["--tenant", "blue=blue.example.com"]);
    laid_out.init(&[]);
    let mut store = laid_out.start();
    store.apply_all();
    let configuration = store.first().dir.join("config/authentication.json");
    let written_for = || {
        let config: Value = serde_json::from_slice(&std::fs::read(&configuration).unwrap()).unwrap();
        config["apiVersion"].as_str().unwrap().to_owned()
    };
    assert_eq!(written_for(), "apiserver.config.k8s.io/v1beta1");
    let kubeconfig = std::fs::read(store.admin_kubeconfig()).unwrap();
    fill(&store, RELEASES[0]);
    let robot = RELEASES[0].replace('.', "-");
    let token = store.kubectl(&["-n", "portcullis", "create", "token", &robot]).run_ok().unwrap();
    for (release, binaries) in RELEASES.into_iter().zip(releases).skip(1) {
        let before = objects(&store);
        upgrade(&mut store, binaries);
        let version = store.get(0, "/version").unwrap().json().unwrap()["gitVersion"].clone();
        assert_eq!(version, format!("v{release}"));
        assert_eq!(written_for(), "apiserver.config.k8s.io/v1");
        assert_eq!(objects(&store), before, "{release}");
        assert_eq!(std::fs::read(store.admin_kubeconfig()).unwrap(), kubeconfig);
        fill(&store, release);
        let review =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token.trim()}});
        let file = store.run.next("review");
        portcullis_harness::write_private(&file, review.to_string().as_bytes()).unwrap();
        let asked = ["create", "-f", file.to_str().unwrap(), "-o", "jsonpath={.status.authenticated}"];
        assert_eq!(store.kubectl(&asked).run_ok().unwrap(), "true", "{release}");
        println!("{release}: {} objects of {} kinds are there", before.len(), LISTS.len());
    }
}

use portcullis_harness::wait;

use super::fixture::{START, Store};

/// A command of the administrator, or a manifest to create; and part of the message of its refusal.
const REFUSED: [(&str, &str); 8] = [
    ("delete namespace doomed", "this store deletes no namespace"),
    ("delete configmap kept --cascade=foreground", "delete with --cascade=background"),
    ("delete configmap kept --cascade=orphan", "delete with --cascade=background"),
    ("run pod --image=none", "this store runs nothing"),
    ("create deployment web --image=none", "this store runs nothing"),
    ("create job once --image=none", "this store runs nothing"),
    ("create quota some --hard=pods=1", "this store runs nothing"),
    ("create clusterrole sum --aggregation-rule=a=b", "would stay empty"),
];

#[test]
fn objects_that_would_wait_for_a_controller_are_refused() {
    let Some(store) = Store::start("store-admission", 1, &[]) else { return };
    store.kubectl(&["create", "namespace", "doomed"]).run_ok().unwrap();
    store.kubectl(&["create", "configmap", "kept"]).run_ok().unwrap();
    for (command, message) in REFUSED {
        let arguments: Vec<&str> = command.split(' ').collect();
        // kube-apiserver compiles a new policy within seconds. A dry run is judged by the policies, too.
        let judged = |more: &[&str]| {
            let answer = store.kubectl(&arguments).args(more).run().unwrap();
            let is_refused = !answer.success() && answer.stderr.contains(message);
            if is_refused { Ok(()) } else { Err(answer.stdout + &answer.stderr) }
        };
        wait::until_ok(command, START, || judged(&["--dry-run=server"])).unwrap();
        assert_eq!(judged(&[]), Ok(()), "{command}");
    }
    let phase = store.kubectl(&["get", "namespace", "doomed", "-o", "jsonpath={.status.phase}"]).run_ok().unwrap();
    assert_eq!(phase, "Active");
    let orphan = "/api/v1/namespaces/default/configmaps/kept?orphanDependents=true";
    let answer = store.kubectl(&["delete", "--raw", orphan]).run().unwrap();
    assert!(!answer.success() && answer.stderr.contains("--cascade=background"), "{}", answer.stderr);
    store.kubectl(&["delete", "configmap", "kept"]).run_ok().unwrap();
    manifests_are_refused(&store);
    store.kubectl(&["create", "serviceaccount", "robot", "-n", "portcullis"]).run_ok().unwrap();
    let token = store.kubectl(&["create", "token", "robot", "-n", "portcullis"]).run_ok().unwrap();
    assert!(token.split('.').count() == 3);
    let asked = "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata:\n  name: asked\n  \
                 namespace: portcullis\n  annotations: {kubernetes.io/service-account.name: robot}\n";
    let file = store.run.write("asked.yaml", asked).unwrap();
    let answer = store.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]).run().unwrap();
    assert!(!answer.success() && answer.stderr.contains("kubectl create token"), "{}", answer.stderr);
    let owned = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  ownerReferences:\n  \
                 - {apiVersion: v1, kind: ConfigMap, name: x, uid: 00000000-0000-0000-0000-000000000000}\n";
    let file = store.run.write("owned.yaml", owned).unwrap();
    let answer = store.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]).run().unwrap();
    assert!(answer.success() && answer.stderr.contains("stays when its owner is deleted"), "{}", answer.stderr);
}

/// Manifests to apply, and part of the message of their refusal.
fn manifests_are_refused(store: &Store) {
    let finalized = |finalizer: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: held, namespace: default, finalizers: [{finalizer}]}}\n"
        )
    };
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: disk}\nspec:\n  capacity: {storage: 1Gi}\n  \
                  accessModes: [ReadWriteOnce]\n  hostPath: {path: /none}\n";
    let manifests = [
        (finalized("foregroundDeletion"), "foregroundDeletion and orphan"),
        (finalized("orphan"), "foregroundDeletion and orphan"),
        (volume.to_owned(), "this store runs nothing"),
    ];
    for (text, message) in manifests {
        let file = store.run.next("refused");
        std::fs::write(&file, &text).unwrap();
        let refused = || {
            let more = ["apply", "--server-side", "--dry-run=server", "-f", file.to_str().unwrap()];
            let answer = store.kubectl(&more).run().unwrap();
            let is_refused = !answer.success() && answer.stderr.contains(message);
            if is_refused { Ok(()) } else { Err(answer.stdout + &answer.stderr) }
        };
        wait::until_ok(&text, START, refused).unwrap();
    }
    // A finalizer of others is theirs to remove.
    let file = store.run.write("held.yaml", finalized("example.com/held")).unwrap();
    store.kubectl(&["apply", "--server-side", "--dry-run=server", "-f", file.to_str().unwrap()]).run_ok().unwrap();
}

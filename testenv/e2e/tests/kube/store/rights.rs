use super::fixture::{Store, cluster, portcullis};

/// The columns of the table.
const USERS: [(&str, &str); 6] = [
    ("portcullis:admins", "admin"),
    ("portcullis:editors", "editor"),
    ("portcullis:viewers", "viewer"),
    ("portcullis:tenant:blue", "tenant"),
    ("portcullis:tenant:red", "unknown tenant"),
    ("system:authenticated", "anyone"),
];

/// Arguments of `kubectl auth can-i`, and the users that may: admin, editor, viewer, tenant, unknown tenant, anyone.
const RIGHTS: [(&str, &str); 31] = [
    ("list upstreamclusters", "aev..."),
    ("watch upstreamclusters", "aev..."),
    ("get upstreamclusters/blue.example.com", "aevt.."),
    ("get upstreamclusters/red.example.com", "aev..."),
    ("patch upstreamclusters/blue.example.com", "ae.t.."),
    ("create upstreamclusters/blue.example.com", "ae.t.."),
    ("delete upstreamclusters/blue.example.com", "ae.t.."),
    ("patch upstreamclusters/red.example.com", "ae...."),
    ("create upstreamclusters", "ae...."),
    ("deletecollection upstreamclusters", "......"),
    ("get upstreamclusters/blue.example.com --subresource=status", "aevt.."),
    ("patch upstreamclusters/blue.example.com --subresource=status", "......"),
    ("list gatewaysettings", "aev..."),
    ("patch gatewaysettings/default", "a....."),
    ("create gatewaysettings", "a....."),
    ("patch gatewaysettings/default --subresource=status", "......"),
    ("get secrets -n portcullis", "a....."),
    ("list secrets -n portcullis", "a....."),
    ("patch secrets -n portcullis", "ae...."),
    ("create secrets -n portcullis", "ae...."),
    ("delete secrets -n portcullis", "ae...."),
    ("create secrets -n kube-system", "......"),
    ("get leases -n portcullis", "a....."),
    ("create serviceaccounts/token -n portcullis", "a....."),
    ("create rolebindings -n portcullis", "a....."),
    ("create clusterrolebindings", "a....."),
    ("create clusterroles", "a....."),
    ("escalate clusterroles", "......"),
    ("delete namespaces", "......"),
    ("impersonate users", "......"),
    ("patch validatingadmissionpolicies", "......"),
];

fn question(text: &str) -> Vec<&str> {
    ["auth", "can-i"].into_iter().chain(text.split(' ')).collect()
}

#[test]
fn each_role_has_its_rights_and_no_others() {
    let Some(store) = Store::start("store-rights", 1, &["--tenant", "blue=blue.example.com"]) else { return };
    let mut wrong = Vec::new();
    for (text, expected) in RIGHTS {
        for ((group, user), letter) in USERS.into_iter().zip(expected.chars()) {
            // As a person has it: every user is also in the group of all users.
            let who = ["--as", "someone", "--as-group", group, "--as-group", "system:authenticated"];
            let answer = store.kubectl(&question(text)).args(who).run().unwrap();
            if (answer.stdout.trim() == "yes") != (letter != '.') {
                wrong.push(format!("{user}: {text}: {} {}", answer.stdout.trim(), answer.stderr));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{} answers of kubectl auth can-i", RIGHTS.len() * USERS.len());
}

/// Server-side apply creates by name, so a right by name is enough.
#[test]
fn tenant_writes_its_own_objects_and_no_other() {
    let Some(store) = Store::start("store-tenant", 1, &["--tenant", "blue=blue.example.com"]) else { return };
    let as_tenant = ["--as", "someone", "--as-group", "portcullis:tenant:blue", "--as-group", "system:authenticated"];
    let apply = |name: &str| {
        let text = cluster(name, "https://a.example.com").to_string();
        let file = store.run.write(&format!("{name}.json"), text).unwrap();
        store.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]).args(as_tenant).run().unwrap()
    };
    for _ in 0..2 {
        let answer = apply("blue.example.com");
        assert!(answer.success(), "{}", answer.stderr);
    }
    let answer = apply("red.example.com");
    assert!(!answer.success() && answer.stderr.contains("forbidden"), "{}", answer.stderr);
    store.kubectl(&["get", "upstreamclusters", "blue.example.com"]).args(as_tenant).run_ok().unwrap();
    assert!(!store.kubectl(&["get", "upstreamclusters"]).args(as_tenant).run().unwrap().success());
}

/// The role of a forgotten tenant goes, and no other object.
#[test]
fn tenant_that_is_forgotten_has_no_rights() {
    let tenants = ["--tenant", "blue=blue.example.com", "--tenant", "red=red.example.com"];
    let Some(store) = Store::start("store-forget", 1, &tenants) else { return };
    let may_write = |tenant: &str| {
        let group = format!("portcullis:tenant:{tenant}");
        let asked = format!("patch upstreamclusters/{tenant}.example.com");
        let who = ["--as", "someone", "--as-group", group.as_str()];
        store.kubectl(&question(&asked)).args(who).run().unwrap().stdout.trim() == "yes"
    };
    // A role of an administrator's own, without the label of init.
    store.kubectl(&["create", "clusterrole", "own", "--verb=get", "--resource=upstreamclusters"]).run_ok().unwrap();
    let dir = store.dir.to_str().unwrap();
    let forget = ["init", "--data-dir", dir, "--forget", "tenant=blue", "--apply"];
    portcullis(&forget);
    assert!(may_write("blue"), "nothing is deleted without --prune");
    let again = ["init", "--data-dir", dir, "--apply", "--prune"];
    let text = portcullis(&again);
    let removed: Vec<&str> = text.lines().filter(|line| line.starts_with("removed ")).collect();
    assert_eq!(
        removed,
        ["removed ClusterRoleBinding portcullis-tenant-blue", "removed ClusterRole portcullis-tenant-blue"]
    );
    assert!(!may_write("blue") && may_write("red"));
    store.kubectl(&["get", "clusterrole", "own", "portcullis-editor"]).run_ok().unwrap();
    assert!(!portcullis(&again).contains("removed "), "a second run removes nothing");
}

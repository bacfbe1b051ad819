use serde_json::json;

use super::fixture::{NAME, OnboardFixture};
use crate::sources::NAMESPACE;

#[test]
fn onboard_twice_changes_nothing_and_offboard_leaves_nothing() {
    let Some(fixture) = OnboardFixture::start("onboard-repeat") else { return };
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prod.example.com-foreign",
        "namespace": NAMESPACE, "labels": {"portcullis.dev/upstream-cluster": NAME}}, "stringData": {"a": "b"}});
    fixture.source.apply(&foreign.to_string());
    let before = fixture.objects();

    let dry = fixture.run("onboard", &[fixture.flags(), vec!["--dry-run"]].concat());
    assert!(dry.code == Some(0) && dry.stderr.contains("nothing was changed"), "{dry:#?}");
    assert_eq!(fixture.objects(), before, "a dry run changes nothing");

    let [certificate, key] = fixture.files(&fixture.source.serving(NAME));
    let serving = vec!["--serving-cert", certificate.as_str(), "--serving-key", &key];
    fixture.run_signed(&[fixture.flags(), serving].concat()).is_good();
    let onboarded = fixture.objects();
    let again = fixture.run("onboard", &fixture.flags());
    again.is_good();
    assert!(again.stderr.contains("the present one is good") && !again.stderr.contains(": done"), "{again:#?}");
    assert_eq!(fixture.objects(), onboarded, "a second run changes nothing");
    fixture.run("onboard", &[fixture.flags(), vec!["--check"]].concat()).is_good();

    // Policies that were edited since stay.
    let patch = json!({"spec": {"dispatchPolicies": [{"rules": [{"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"]}]}]}});
    fixture.source.admin(&["patch", "upstreamcluster", NAME, "--type=merge", "-p", &patch.to_string()]);
    fixture.run("onboard", &fixture.flags()).is_good();
    let policies = &fixture.source.stored(NAME)["spec"]["dispatchPolicies"];
    assert_eq!(policies[0]["rules"][0]["verbs"], json!(["get"]), "{policies}");

    // Rights are those of the object as it is stored, and checks, too.
    let patch = json!({"spec": {"portcullis": {"healthCheck": {"path": "/livez"}}}});
    fixture.source.admin(&["patch", "upstreamcluster", NAME, "--type=merge", "-p", &patch.to_string()]);
    let edited = fixture.run("onboard", &fixture.flags());
    assert!(edited.is_good().check("health").0.contains("/livez"), "{edited:#?}");
    assert!(edited.stderr.contains("ClusterRole portcullis for system:portcullis: done"), "{edited:#?}");

    let other = fixture.run("onboard", &[fixture.flags(), vec!["--token"]].concat());
    let refused = "ClusterRoleBinding portcullis is bound to system:portcullis";
    assert!(other.code == Some(1) && other.stderr.contains(refused), "{other:#?}");

    fixture.run_signed(&[fixture.flags(), vec!["--renew"]].concat()).is_good();
    assert_eq!(fixture.requests().len(), 2);

    let offboard = |more: &[&str]| fixture.run("offboard", &[&fixture.flags()[..], more].concat());
    let present = fixture.objects();
    let asked = offboard(&["--dry-run"]);
    assert!(
        asked.code == Some(0) && asked.stderr.contains("kubectl-patch owns fields of it"),
        "an object that another edited stays: {asked:#?}"
    );
    assert!(asked.stderr.contains("UpstreamCluster prod.example.com stays, and needs them"), "{asked:#?}");
    assert!(!asked.stderr.contains("to delete: secrets"), "{asked:#?}");
    let unconfirmed = offboard(&[]);
    assert!(unconfirmed.code == Some(1) && unconfirmed.stderr.contains("--yes"), "{unconfirmed:#?}");
    assert_eq!(fixture.objects(), present);
    fixture.source.admin(&["delete", "upstreamcluster", NAME]);
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/portcullis";
    let without = offboard(&["--yes"]);
    assert!(without.code == Some(0) && without.stderr.contains("was not read"), "{without:#?}");
    assert!(without.stderr.contains("deleted: secrets"), "{without:#?}");
    assert!(fixture.source.kube.get(role).is_ok(), "another UpstreamCluster may need the rights");
    let done = offboard(&["--yes", "--rights"]);
    assert_eq!(done.code, Some(0), "{done:#?}");
    assert_eq!(fixture.objects(), before, "nothing of ours is left, and nothing else was touched: {done:#?}");
    assert!(offboard(&["--yes"]).stderr.contains("nothing of prod.example.com is here"));
}

#[test]
fn rights_that_others_made_or_need_are_left() {
    let Some(fixture) = OnboardFixture::start("offboard-shared") else { return };
    let dir = fixture.source.run.make_dir("config").unwrap();
    let place = |name: &'static str| {
        vec!["--name", name, "--kubeconfig", fixture.admin(), "--output-dir", dir.to_str().unwrap()]
    };
    for name in ["a.example.com", "b.example.com"] {
        fixture.run("onboard", &[place(name), vec!["--token"]].concat()).is_good();
    }
    let one = fixture.run("offboard", &[place("a.example.com"), vec!["--yes"]].concat());
    assert!(one.code == Some(0) && one.stderr.contains("b.example.com has the same server"), "{one:#?}");
    assert!(!dir.join("a.example.com.yaml").exists() && !dir.join("references/a.example.com").exists());
    let root = dir.join("references");
    let (file, root) = (dir.join("b.example.com.yaml"), root.to_str().unwrap());
    let check = ["--check", "--name", "b.example.com", "-f", file.to_str().unwrap(), "--references-root", root];
    fixture.run("onboard", &check).is_good();
    let last = fixture.run("offboard", &[place("b.example.com"), vec!["--yes"]].concat());
    assert!(last.code == Some(0) && last.stderr.contains("deleted: clusterroles portcullis"), "{last:#?}");

    // By hand, as the documents say.
    let printed = crate::sources::printed(&["rbac"]);
    fixture.source.admin(&["-n", "kube-system", "create", "serviceaccount", "portcullis"]);
    fixture.source.apply(&printed);
    let before = fixture.objects();
    let unread = fixture.run("offboard", &[place("a.example.com"), vec!["--yes"]].concat());
    assert!(unread.stderr.contains("UpstreamCluster a.example.com was not read"), "{unread:#?}");
    let foreign = fixture.run("offboard", &[place("a.example.com"), vec!["--yes", "--rights"]].concat());
    assert!(foreign.stderr.contains("not made by portcullis onboard"), "{foreign:#?}");
    assert_eq!(fixture.objects(), before);
}

#[test]
fn objects_that_others_manage_too_stay() {
    let Some(fixture) = OnboardFixture::start("offboard-managed") else { return };
    let before = fixture.objects();
    let onboard = || fixture.run("onboard", &[fixture.flags(), vec!["--token"]].concat()).is_good().stderr.clone();
    let offboard = || {
        let ended = fixture.run("offboard", &[fixture.flags(), vec!["--yes"]].concat());
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.stderr
    };
    onboard();
    let log = offboard();
    assert!(log.contains("deleted: upstreamclusters prod.example.com"), "{log}");
    assert_eq!(fixture.objects(), before, "{log}");

    // Rights with the same values that others applied before.
    let user = "system:serviceaccount:kube-system:portcullis";
    fixture.source.apply(&crate::sources::printed(&["rbac", "--user", user]));
    let foreign = fixture.objects();
    onboard();
    let log = offboard();
    assert!(log.contains("stays: clusterroles portcullis") && log.contains("kubectl owns fields of it"), "{log}");
    let names = |objects: &[String]| -> Vec<String> {
        objects.iter().filter_map(|one| one.rsplit_once(' ')).map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(names(&fixture.objects()), names(&foreign), "{log}");

    // An UpstreamCluster that a repository has: its Secrets serve it.
    onboard();
    let mut object = fixture.source.stored(NAME);
    object["metadata"] = json!({"name": NAME});
    object.as_object_mut().unwrap().remove("status");
    fixture.source.apply(&object.to_string());
    let managed = fixture.objects();
    let log = offboard();
    assert!(log.contains("stays: upstreamclusters prod.example.com") && log.contains("stays: Secrets of"), "{log}");
    assert_eq!(fixture.objects(), managed, "{log}");
}

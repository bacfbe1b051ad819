use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::process::Process;
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::fixture::{Identities, KubeFixture, NAME};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn kubectl_works_through_the_gateway() {
    for identities in Identities::ALL {
        let options = (&KubeOptions::default(), &GatewayOptions::default());
        let Some(fixture) = KubeFixture::forwarding(identities, "kubectl", options.0, options.1) else { return };
        everything_works(&fixture);
    }
}

/// The commands of an ordinary user, one after the other.
pub(crate) fn everything_works(fixture: &KubeFixture) {
    whoami_shows_what_a_direct_request_shows(fixture);
    a_configmap_lives_and_dies(fixture);
    bob_meets_the_apiservers_own_403(fixture);
    impersonation_needs_the_clients_own_grant(fixture);
    the_audit_log_names_gateway_and_user(fixture);
}

pub(crate) fn whoami(kubectl: portcullis_harness::kube::Kubectl) -> Value {
    let mut review = kubectl.args(["auth", "whoami"]).json().unwrap();
    review["status"]["userInfo"].take()
}

fn whoami_shows_what_a_direct_request_shows(fixture: &KubeFixture) {
    let direct = fixture.kube.kubeconfig().identity(&fixture.alice).write(&fixture.run.join("direct")).unwrap();
    let direct = whoami(fixture.kube.kubectl(&direct));
    let through = whoami(fixture.kubectl(&fixture.alice));
    assert_eq!(through["username"], "alice");
    assert_eq!(through["groups"], json!(["dev", "system:authenticated"]));
    assert_eq!(through, direct, "extras included");
}

fn a_configmap_lives_and_dies(fixture: &KubeFixture) {
    let alice = |args: &[&str]| fixture.kubectl(&fixture.alice).args(args).run_ok().unwrap();
    let watch = fixture.kubectl(&fixture.alice).args(["get", "configmaps", "-w", "-o", "name"]).spawn().unwrap();
    let sees = |name: &str, count: usize| watch_sees(&watch, name, count);
    alice(&["create", "configmap", "first", "--from-literal=a=1"]);
    sees("configmap/first", 1);
    assert!(alice(&["get", "configmaps", "-o", "name"]).contains("configmap/first"));
    alice(&["patch", "configmap", "first", "--type=merge", "-p", r#"{"data":{"a":"2"}}"#]);
    sees("configmap/first", 2);
    let object = fixture.kubectl(&fixture.alice).args(["get", "configmap", "first"]).json().unwrap();
    assert_eq!(object["data"]["a"], "2");
    alice(&["delete", "configmap", "first"]);
    sees("configmap/first", 3);
    let gone = fixture.kubectl(&fixture.alice).args(["get", "configmap", "first"]).run().unwrap();
    assert!(gone.stderr.contains("NotFound"), "{}", gone.stderr);
}

fn watch_sees(watch: &Process, name: &str, count: usize) {
    let enough = || (watch.stdout().matches(name).count() >= count).then_some(());
    wait::until(&format!("{name} is seen {count} times"), SOON, enough).unwrap();
}

fn bob_meets_the_apiservers_own_403(fixture: &KubeFixture) {
    let refused = fixture.kubectl(&fixture.bob).args(["get", "configmaps"]).run().unwrap();
    let words = r#"configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group """#;
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
}

fn impersonation_needs_the_clients_own_grant(fixture: &KubeFixture) {
    // Without discovery before it, whose errors kubectl does not read.
    let raw = ["get", "--raw", "/api/v1/namespaces/default/configmaps"];
    for flags in [&["--as=admin"][..], &["--as=carol", "--as-group=system:masters"], &["--as=carol", "--as-uid=1"]] {
        let refused = fixture.kubectl(&fixture.alice).args(raw).args(flags).run().unwrap();
        assert!(refused.stderr.contains("cannot impersonate"), "{}", refused.stderr);
    }
    fixture.admin(&[
        "create",
        "clusterrole",
        "be-dave",
        "--verb=impersonate",
        "--resource=users",
        "--resource-name=dave",
    ]);
    fixture.admin(&["create", "clusterrolebinding", "bob-is-dave", "--clusterrole=be-dave", "--user=bob"]);
    assert_eq!(whoami(fixture.kubectl(&fixture.bob).args(["--as=dave"]))["username"], "dave");
    let other = fixture.kubectl(&fixture.bob).args(raw).args(["--as=alice"]).run().unwrap();
    assert!(other.stderr.contains("cannot impersonate"), "{}", other.stderr);
    let with_group = fixture.kubectl(&fixture.bob).args(raw).args(["--as=dave", "--as-group=dev"]).run().unwrap();
    assert!(with_group.stderr.contains("cannot impersonate"), "{}", with_group.stderr);
    fixture.admin(&[
        "create",
        "clusterrole",
        "be-ops",
        "--verb=impersonate",
        "--resource=groups",
        "--resource-name=ops",
    ]);
    fixture.admin(&["create", "clusterrolebinding", "bob-is-ops", "--clusterrole=be-ops", "--user=bob"]);
    let as_ops = || -> Option<Value> {
        let mut review =
            fixture.kubectl(&fixture.bob).args(["--as=dave", "--as-group=ops", "auth", "whoami"]).json().ok()?;
        Some(review["status"]["userInfo"]["groups"].take())
    };
    // The answer that bob may not be in another group is cached for 30 seconds; about this one there is no answer yet.
    let groups = wait::until("bob may be of ops", SOON, as_ops).unwrap();
    assert_eq!(groups, json!(["ops", "system:authenticated"]));
}

fn the_audit_log_names_gateway_and_user(fixture: &KubeFixture) {
    let path = "/api/v1/namespaces/default/configmaps/first";
    let audited = || {
        let events = fixture.kube.apiservers()[0].audit_events_for(path).ok()?;
        events.into_iter().find(|event| event["verb"] == "patch")
    };
    let event = wait::until("the patch is in the audit log", SOON, audited).unwrap();
    let user = match fixture.identities {
        Identities::Impersonate => {
            assert_eq!(event["user"]["username"], "portcullis");
            &event["impersonatedUser"]
        }
        Identities::RequestHeader => &event["user"],
    };
    assert_eq!(user["username"], "alice");
    assert_eq!(user["groups"], json!(["dev", "system:authenticated"]));
    assert!(event["requestURI"].as_str().unwrap().starts_with(path), "{NAME}: {event}");
}

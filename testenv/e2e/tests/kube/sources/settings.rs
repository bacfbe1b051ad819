//! `GatewaySettings` as an object: used by its name, and never mixed with others.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::client::plain;
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::control_plane::{ControlPlaneUnderTest, SOON};
use super::fixture::{NAMESPACE, SourceFixture, USER, printed};

const USED: &str = "edge";
const OTHER: &str = "other";
const CLUSTER: &str = "a.example.com";

struct Site {
    fixture: SourceFixture,
}

impl Site {
    fn start(test: &str) -> Option<Self> {
        let site = Site { fixture: SourceFixture::start(test)? };
        site.fixture.apply(&site.fixture.manifest(CLUSTER).to_text());
        Some(site)
    }

    /// The flags of a control plane that uses an object.
    fn flags(&self, name: &str) -> Vec<String> {
        let flags = self.fixture.kubernetes_flags(name);
        flags.into_iter().map(|flag| if flag == "--settings" { "--settings-name".to_owned() } else { flag }).collect()
    }

    /// Settings for loopback, with a default certificate in a Secret.
    fn spec(&self) -> Value {
        let address = self.fixture.address;
        json!({
            "instance": "e2e",
            "listener": {"address": address.ip().to_string(), "port": address.port()},
            "allowLoopbackUpstreams": true,
            "wasmModulePath": deps::wasm_path(),
            "defaultCertificate": {"secret": {"name": "default"}},
        })
    }

    fn apply(&self, name: &str, spec: &Value) {
        self.fixture.apply(&document(name, spec).to_string());
    }

    fn secret(&self, settings: &str) {
        let identity = portcullis_e2e::default_certificate(&self.fixture.serving_ca).unwrap();
        let data = json!({
            "tls.crt": STANDARD.encode(identity.pem()), "tls.key": STANDARD.encode(identity.key_pem()),
        });
        let labels = json!({"portcullis.dev/gateway-settings": settings});
        let metadata = json!({"name": "default", "namespace": NAMESPACE, "labels": labels});
        self.fixture
            .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}).to_string());
    }

    fn stored(&self, name: &str) -> Value {
        self.fixture.kube.get(&format!("/apis/portcullis.dev/v1alpha1/gatewaysettings/{name}")).unwrap()
    }

    /// Waits for the condition of the newest version; the object.
    fn wait(&self, name: &str, status: &str, reason: &str, message: &str) -> Value {
        wait::until_ok(&format!("{name}: {status}, {reason}"), SOON, || {
            let object = self.stored(name);
            let accepted = &object["status"]["conditions"][0];
            let text = accepted["message"].as_str().unwrap_or_default();
            let is_so = accepted["status"] == status && accepted["reason"] == reason && text.contains(message);
            let is_newest = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            if is_so && is_newest { Ok(object) } else { Err(format!("{:#}", object["status"])) }
        })
        .unwrap()
    }
}

fn document(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": name}, "spec": spec,
    })
}

fn default_of(object: &Value, field: &str) -> Option<String> {
    let defaults = object["status"]["defaults"].as_array()?;
    let found = defaults.iter().find(|one| one["field"] == field)?;
    Some(found["value"].as_str().unwrap().to_owned())
}

fn settings_in(status: &Value) -> Option<&Value> {
    status["objects"].as_array()?.iter().find(|one| one["kind"] == "GatewaySettings")
}

fn start(site: &Site, dir: &str, name: &str, more: &[&str]) -> ControlPlane {
    let flags = site.flags(name);
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    ControlPlane::start_from(&site.fixture.run.make_dir(dir).unwrap(), &flags).unwrap()
}

/// Nothing is served without them: the defaults protect no identity.
#[test]
fn settings_object_that_is_missing_or_refused_serves_nothing() {
    let Some(site) = Site::start("settings-missing") else { return };
    let plane = start(&site, "plane", USED, &[]);
    let refused = |message: &'static str| {
        move |status: &Value| {
            settings_in(status).is_some_and(|one| {
                one["accepted"] == false && one["message"].as_str().unwrap_or_default().contains(message)
            })
        }
    };
    plane.wait_status("their absence is told", SOON, refused("there are no GatewaySettings of this name")).unwrap();
    let readiness = || plain::get(plane.http_address(), "/readyz").unwrap().status;
    assert_eq!((readiness(), plane.status().unwrap()["snapshot"].as_str().unwrap()), (503, ""));
    site.apply(OTHER, &json!({}));
    site.wait(OTHER, "False", "NotUsed", "uses the GatewaySettings edge (--settings-name)");
    // The Secret is another object's.
    site.secret(OTHER);
    site.apply(USED, &site.spec());
    let object = site.wait(USED, "False", "ReferenceNotResolved", "spec.defaultCertificate.secret");
    assert_eq!((readiness(), object["status"].get("defaults")), (503, None));
    site.secret(USED);
    site.wait(USED, "True", "Accepted", "");
    wait::until("it serves", SOON, || (readiness() == 200).then_some(())).unwrap();
}

#[test]
fn settings_object_is_edited_refused_and_deleted() {
    let Some(site) = Site::start("settings-object") else { return };
    site.secret(USED);
    site.apply(USED, &site.spec());
    site.apply(OTHER, &json!({"instance": "not-this"}));
    let flags = site.flags(USED);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut side = ControlPlaneUnderTest::start(&site.fixture.run, "plane", &flags);
    side.wait_listening(site.fixture.address);
    let object = site.wait(USED, "True", "Accepted", "");
    assert_eq!(object["status"]["controlPlane"], format!("{NAMESPACE}/portcullis"));
    assert_eq!(default_of(&object, "spec.limits.maxRequests").as_deref(), Some("65536"));
    assert_eq!(default_of(&object, "spec.instance"), None, "it is set");
    assert!(!object["status"].to_string().contains("PRIVATE"));
    site.wait(OTHER, "False", "NotUsed", USED);
    let table = site.fixture.admin(&["get", "gatewaysettings"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((&rows[1][..3], &rows[2][..3]), (&[USED, "True", "Accepted"][..], &[OTHER, "False", "NotUsed"][..]));

    let mut spec = site.spec();
    spec["limits"] = json!({"maxRequests": 1_000});
    site.apply(USED, &spec);
    let edited = wait::until("the edit is told", SOON, || {
        let object = site.wait(USED, "True", "Accepted", "");
        default_of(&object, "spec.limits.maxRequests").is_none().then_some(object)
    });
    assert_eq!(edited.unwrap()["status"]["observedGeneration"], 2);

    let served = side.snapshot();
    refused_edits_change_nothing(&site, &spec);
    assert_eq!(side.snapshot(), served);
    spec["limits"] = json!({"maxRequests": 2_000});
    site.apply(USED, &spec);
    site.wait(USED, "True", "Accepted", "");
    side.plane.wait_status("the edit acts", SOON, |status| status["snapshot"] != served).unwrap();

    let served = side.snapshot();
    site.fixture.admin(&["delete", "gatewaysettings", USED]);
    let told =
        |status: &Value| settings_in(status).is_some_and(|one| one["message"].to_string().contains("still in use"));
    side.plane.wait_status("the deletion is told", SOON, told).unwrap();
    assert_eq!(side.snapshot(), served);
    // A control plane that starts without them has nothing to serve.
    side.plane.restart().unwrap();
    let told = |status: &Value| settings_in(status).is_some_and(|one| one["accepted"] == false);
    side.plane.wait_status("they are missing", SOON, told).unwrap();
    assert_eq!(side.snapshot(), "");
    site.apply(USED, &spec);
    site.wait(USED, "True", "Accepted", "");
    side.plane.wait_in_sync(1, SOON).unwrap();
}

fn refused_edits_change_nothing(site: &Site, spec: &Value) {
    let mut wrong = spec.clone();
    wrong["listener"]["proxyProtocol"] = json!({"port": site.fixture.address.port(), "trustedProxies": ["10.0.0.0/8"]});
    site.apply(USED, &wrong);
    let object = site.wait(USED, "False", "Invalid", "spec.listener.proxyProtocol.port: is the same as listener.port");
    let message = object["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("the settings that were used before are still in use"), "{message}");
    assert_eq!(default_of(&object, "spec.limits.maxRequests"), None, "those of the version in use");
    assert_eq!(default_of(&object, "spec.limits.maxConnections").as_deref(), Some("65536"));
    // The API server refuses what is always wrong.
    for (field, value, path) in [
        ("listener", json!({"port": 0}), "spec.listener.port"),
        ("instance", json!("Not-A-Label"), "spec.instance"),
        ("clientCANames", json!("Perhaps"), "spec.clientCANames"),
        ("rebalance", json!({}), "spec.rebalance.chance"),
        ("accessLog", json!({"destination": "elsewhere"}), "spec.accessLog.destination"),
        ("defaultClientCA", json!({"secret": {"name": "a"}, "file": "b"}), "spec.defaultClientCA"),
    ] {
        let collection = "/apis/portcullis.dev/v1alpha1/gatewaysettings?dryRun=All&fieldValidation=Strict";
        let refused = site.fixture.kube.create(collection, &document("dry", &json!({field: value}))).unwrap_err();
        assert!(refused.to_string().contains(path), "{field}: {refused}");
    }
}

/// Each control plane writes the status of its own object, and leaves the other one's alone.
#[test]
fn settings_of_two_control_planes_keep_apart() {
    let Some(site) = Site::start("settings-two") else { return };
    let rights = ["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER, "--lease-name", "second"];
    site.fixture.apply(&printed(&rights).replace("portcullis-control-plane", "second-control-plane"));
    let second = start(&site, "second", OTHER, &["--lease-name", "second"]);
    let led = |status: &Value| status["source"]["leader"] == true;
    second.wait_status("the second leads", SOON, led).unwrap();
    let first = start(&site, "first", USED, &[]);
    first.wait_status("the first leads", SOON, led).unwrap();
    for name in [USED, OTHER] {
        site.apply(name, &json!({"instance": name}));
    }
    for (name, control_plane) in [(USED, "portcullis"), (OTHER, "second")] {
        let object = site.wait(name, "True", "Accepted", "");
        assert_eq!(object["status"]["controlPlane"], format!("{NAMESPACE}/{control_plane}"));
    }
    drop(second);
    // An object that is not used any more gets its status from the control plane that used it.
    let third = start(&site, "third", USED, &["--lease-name", "second"]);
    site.wait(OTHER, "False", "NotUsed", &format!("{NAMESPACE}/second uses the GatewaySettings {USED}"));
    drop((first, third));
}

/// Also without the definition, as in a Kubernetes that an earlier version prepared.
#[test]
fn settings_of_a_file_are_used_and_no_object() {
    let Some(site) = Site::start("settings-file") else { return };
    site.fixture.admin(&["delete", "crd", "gatewaysettings.portcullis.dev"]);
    let side = site.fixture.kubernetes_side("plane");
    side.wait_listening(site.fixture.address);
    let log = side.plane.process().log();
    assert!(log.contains("gatewaysettings") && log.contains("objects of this kind are not watched"), "{log}");
    let served = side.snapshot();
    site.fixture.apply(&printed(&["crd"]));
    wait::until("the kind is served", SOON, || {
        site.fixture.kubectl(&["get", "gatewaysettings"]).run().unwrap().success().then_some(())
    })
    .unwrap();
    site.apply(USED, &json!({"instance": "not-this"}));
    site.wait(USED, "False", "NotUsed", "uses the GatewaySettings of a file (--settings)");
    assert_eq!(side.snapshot(), served);
    let both = [&site.fixture.kubernetes_flags("settings.yaml")[..], &["--settings-name".to_owned(), USED.to_owned()]];
    let output = std::process::Command::new(deps::portcullis().unwrap()).arg("serve").args(both.concat()).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("cannot be used with") && text.contains("--settings-name"), "{text}");
}

/// Rights of an earlier version are enough for settings of a file.
#[test]
fn settings_that_may_not_be_listed_stop_nothing() {
    let Some(fixture) = SourceFixture::without_rights("settings-rights", &KubeOptions::default()) else { return };
    fixture.grant();
    let rule = json!([{"op": "remove", "path": "/rules/2"}, {"op": "remove", "path": "/rules/2"}]).to_string();
    fixture.admin(&["patch", "clusterrole", "portcullis-control-plane", "--type=json", "-p", &rule]);
    let role = fixture.kubectl(&["get", "clusterrole", "portcullis-control-plane"]).json().unwrap();
    assert!(!role["rules"].to_string().contains("gatewaysettings"), "{role}");
    fixture.apply(&fixture.manifest(CLUSTER).to_text());
    let side = fixture.kubernetes_side("plane");
    side.wait_listening(fixture.address);
    side.wait_current(true);
}

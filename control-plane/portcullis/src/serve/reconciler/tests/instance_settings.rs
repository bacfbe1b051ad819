//! Instances with `GatewaySettings` of their own.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_xds::{Snapshot, View};
use serde_json::{Value, json};

use super::super::Reconciler;
use super::instances::{HAND_OVER, World, module, of_team, views};
use super::{HOUR, certificate};

fn settings(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": name}, "spec": spec})
}

/// An instance that names settings.
fn naming(name: &str, settings: &str) -> Value {
    let mut instance = of_team(name, "1");
    instance["spec"]["settings"] = json!(settings);
    instance
}

/// Settings with a default certificate and a client CA, both of these keys, and a port.
fn whole([certificate, key]: &[String; 2], name: &str, port: u16) -> Value {
    let spec = json!({
        "listener": {"port": port}, "defaultCertificate": {"certData": certificate, "keyData": key},
        "defaultClientCA": {"data": certificate},
    });
    settings(name, spec)
}

fn view<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Snapshot {
    snapshot.view(&View(Some(name.to_owned()))).unwrap()
}

/// Whether a resource of a kind has a text in it.
fn has(view: &Snapshot, kind: &str, text: &str) -> bool {
    let of_kind = view.resources().filter(|(url, _, _)| url.ends_with(kind));
    let mut found = of_kind
        .filter(|(_, _, resource)| resource.pieces().concat().windows(text.len()).any(|part| part == text.as_bytes()));
    found.next().is_some()
}

/// A line of the signature of a certificate.
fn mark(keys: &[String; 2]) -> String {
    let pem = String::from_utf8(STANDARD.decode(&keys[0]).unwrap()).unwrap();
    pem.lines().rev().nth(2).unwrap().to_owned()
}

#[test]
fn client_ca_and_certificate_are_of_the_instances_envoys() {
    let (of_all, of_a) = (certificate(), certificate());
    let mut world = World::new(&[(0, "a"), (1, "none")], &[naming("a", "own")]);
    world.are_bare = true;
    world.settings = (whole(&of_all, "all", 6443), vec![whole(&of_all, "all", 6443), whole(&of_a, "own", 7443)]);
    let reconciled = world.reconcile();
    assert_eq!(module(&reconciled.snapshot), views(&[("", &[1]), ("instance/a", &[0])]));
    assert!(reconciled.diagnoses.iter().all(|one| one.accepted), "{:?}", reconciled.diagnoses);
    let own = view(&reconciled.snapshot, "instance/a");
    let (mark_of_all, mark_of_a) = (mark(&of_all), mark(&of_a));
    for kind in ["RouteConfiguration", "Secret"] {
        assert!(has(own, kind, &mark_of_a) && !has(own, kind, &mark_of_all), "{kind}");
        assert!(
            has(&reconciled.snapshot, kind, &mark_of_all) && !has(&reconciled.snapshot, kind, &mark_of_a),
            "{kind}"
        );
    }
    // Without settings of its own it has those of all, and not the certificate.
    world.instances = vec![of_team("a", "1")];
    let reconciled = world.reconcile();
    // Routes without destinations stay for its streams, and no chain leads to them.
    let without = view(&reconciled.snapshot, "instance/a");
    assert!(!has(without, "Listener", "c0.example.com"), "it has no certificate");
    let told = reconciled.diagnoses.iter().find(|one| one.name == "c0.example.com").unwrap();
    assert!(!told.accepted && told.message.contains("belongs to an Instance"), "{}", told.message);
}

/// Servers rely on the same in all instances, so that a decision in one finds no other one's pool by its name.
#[test]
fn names_of_resources_are_the_same_in_all_instances() {
    let mut world = World::new(&[(0, "a")], &[naming("a", "own"), of_team("b", "2")]);
    world.settings.1 = vec![whole(&certificate(), "own", 7443)];
    world.snapshot();
    world.clusters.insert(0, "b");
    let both = world.snapshot();
    let names = |name: &str| -> BTreeSet<String> {
        let owned = view(&both, name).owned_by("c0.example.com");
        owned.map(|(_, name)| name.to_owned()).collect()
    };
    assert_eq!(names("instance/a"), names("instance/b"));
    assert!(names("instance/a").iter().any(|name| name.contains('@')));
}

#[test]
fn settings_that_are_not_usable_keep_what_was_accepted() {
    let keys = certificate();
    let good = || vec![whole(&keys, "own", 7443)];
    let elsewhere = settings("own", json!({"instance": "elsewhere"}));
    for (documents, reason) in [
        (vec![], "there are no GatewaySettings own; the settings that were used before are still in use"),
        (vec![settings("own", json!({"listener": {"port": 0}}))], "spec.listener.port"),
        (vec![elsewhere], "spec.instance"),
        ([good(), good()].concat(), "more than one GatewaySettings own"),
    ] {
        let mut world = World::new(&[(0, "a")], &[naming("a", "own")]);
        world.settings.1 = good();
        let before = world.snapshot();
        world.settings.1 = documents.clone();
        for _ in 0..2 {
            let reconciled = world.reconcile();
            assert_eq!(view(&reconciled.snapshot, "instance/a").version(), view(&before, "instance/a").version());
            let told = reconciled.diagnoses.iter().find(|one| one.kind == "Instance").unwrap();
            assert!(!told.accepted && told.message.contains(reason), "{reason}: {}", told.message);
            world.now += HAND_OVER;
        }
        // A control plane that starts has nothing to serve by, and leaves what was served.
        world.reconciler = Reconciler::resume(Some(&before), 24 * HOUR);
        world.clusters.insert(1, "a");
        let resumed = world.snapshot();
        assert_eq!(view(&resumed, "instance/a").version(), view(&before, "instance/a").version(), "{reason}");
        assert_eq!(module(&resumed)[""], [0; 0], "not at Envoys of none");
        world.settings.1 = good();
        assert_eq!(module(&world.snapshot())["instance/a"], [0, 1], "{reason}");
    }
}

#[test]
fn instance_without_its_settings_serves_and_takes_nothing() {
    let mut world = World::new(&[(0, "a"), (1, "none")], &[]);
    world.snapshot();
    world.instances = vec![naming("a", "own")];
    world.clusters.insert(2, "a");
    for _ in 0..3 {
        let reconciled = world.reconcile();
        // The first goes on where it was, a new one is for no others.
        assert_eq!(module(&reconciled.snapshot), views(&[("", &[0, 1])]));
        assert!(!reconciled.instances.by_name["a"].is_served);
        assert_eq!(world.reconciler.next_expiry(), None, "else the same objects are reconciled without end");
        world.now += HAND_OVER;
    }
    world.settings.1 = vec![whole(&certificate(), "own", 7443)];
    assert_eq!(module(&world.snapshot()), views(&[("", &[0, 1]), ("instance/a", &[0, 2])]));
    assert_eq!(world.reconciler.next_expiry(), Some(world.now + HAND_OVER), "from now on");
    world.now += HAND_OVER;
    assert_eq!(module(&world.snapshot()), views(&[("", &[1]), ("instance/a", &[0, 2])]));
}

#[test]
fn settings_that_stay_follow_the_fields_of_all() {
    let mut world = World::new(&[(0, "a")], &[naming("a", "own")]);
    world.settings.1 = vec![settings("own", json!({"instance": "portcullis"}))];
    world.snapshot();
    world.settings.0 = settings("a", json!({"instance": "edge"}));
    let reconciled = world.reconcile();
    let told = reconciled.diagnoses.iter().find(|one| one.kind == "Instance").unwrap();
    assert!(told.message.contains("spec.instance: is another one"), "{}", told.message);
    let owned = view(&reconciled.snapshot, "instance/a").owned_by("c0.example.com");
    let former: Vec<&str> = owned.map(|(_, name)| name).filter(|name| name.starts_with("portcullis/")).collect();
    assert_eq!(former, [""; 0], "names are one for all");
}

#[test]
fn settings_stay_with_an_instance_that_is_gone() {
    let keys = certificate();
    let mut world = World::new(&[(0, "a")], &[naming("a", "own")]);
    world.settings.1 = vec![whole(&keys, "own", 7443)];
    let before = world.snapshot();
    world.instances.clear();
    world.snapshot();
    world.now += HAND_OVER;
    let after = world.snapshot();
    assert_eq!(module(&after), views(&[("", &[0]), ("instance/a", &[])]));
    // No port of all gateways is opened at a tenant's Envoys.
    let listener = |snapshot: &Snapshot| {
        let view = view(snapshot, "instance/a");
        view.resources()
            .filter(|(url, _, _)| url.ends_with("Secret"))
            .any(|(_, name, _)| name.contains("default-certificate"))
    };
    assert!(listener(&before) && listener(&after));
}

#[test]
fn edit_of_settings_acts_on_its_instance_alone() {
    let mut world = World::new(&[(0, "a"), (1, "b"), (2, "none")], &[naming("a", "own"), of_team("b", "2")]);
    world.settings.1 = vec![settings("own", json!({}))];
    let before = world.snapshot();
    world.settings.1 = vec![settings("own", json!({"accessLog": {"destination": "none"}}))];
    let reconciled = world.reconcile();
    let after = &reconciled.snapshot;
    assert_ne!(view(after, "instance/a").version(), view(&before, "instance/a").version());
    assert_eq!(view(after, "instance/b").version(), view(&before, "instance/b").version());
    assert_eq!(after.version(), before.version());
    let told: Vec<&str> =
        reconciled.diagnoses.iter().filter(|one| one.kind == "GatewaySettings").map(|one| one.name.as_str()).collect();
    assert_eq!(told, ["a", "own"]);
}

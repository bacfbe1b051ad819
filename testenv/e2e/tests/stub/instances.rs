//! Instances with Envoys of their own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_e2e::Manifest;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::envoy::Envoy;
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use crate::network::Fixture;

const SOON: Duration = Duration::from_secs(20);

/// Settings without a certificate of all clusters.
fn settings() -> String {
    let address = ports::free_address().unwrap();
    let listener = json!({"address": address.ip().to_string(), "port": address.port()});
    let spec = json!({"instance": "e2e", "listener": listener, "allowLoopbackUpstreams": true});
    json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "e2e"}, "spec": spec})
        .to_string()
}

fn instance(name: &str) -> String {
    let spec = json!({"clustersSelector": {"matchLabels": {"team": name}}});
    json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "Instance", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

/// A cluster of a team, with keys of its own.
fn cluster(name: &str, team: &str, server: SocketAddr, ca: &Ca) -> String {
    let serving = ca.issue(&CertSpec::server(name, [name])).unwrap();
    manifest(name, team, server, (ca, &serving)).to_text()
}

fn manifest(name: &str, team: &str, server: SocketAddr, (ca, serving): (&Ca, &Identity)) -> Manifest {
    let client = ca.issue(&CertSpec::client("system:gateway", ["x"])).unwrap();
    let manifest = Manifest::new(name, [server]).upstream(&client, ca, "kubernetes").serving(serving, ca);
    manifest.set("/metadata/labels", json!({"team": team}))
}

fn dump(envoy: &Envoy) -> String {
    envoy.admin().config_dump().unwrap().to_string()
}

fn list(status: &Value, field: &str) -> Vec<Value> {
    status[field].as_array().cloned().unwrap_or_default()
}

#[test]
fn envoy_of_an_instance_has_its_clusters_and_no_key_of_others() {
    let ca = Ca::new("all of them").unwrap();
    let server = ports::free_address().unwrap();
    let objects = [
        ("settings", settings()),
        ("a", instance("a")),
        ("b", instance("b")),
        ("of-a", cluster("one.a.test", "a", server, &ca)),
        ("of-b", cluster("one.b.test", "b", server, &ca)),
        ("of-none", cluster("free.test", "c", server, &ca)),
    ];
    let fixture = Fixture::serving("instances", &objects);
    let of_instance = |node: &str| -> Identity {
        let dns = vec!["a.instance.portcullis.dev".to_owned()];
        fixture.client_ca.issue(&CertSpec { dns, ..CertSpec::client(node, [""; 0]) }).unwrap()
    };
    let named = |name: &str, identity: &Identity, more: &[&str]| {
        fixture.envoy_with(name, name, identity, &fixture.server_ca, more)
    };
    let unproven = named("unproven", &fixture.client("unproven"), &["--instance", "a"]);
    let other = named("other", &of_instance("other"), &["--instance", "b"]);
    let silent = named("silent", &of_instance("silent"), &[]);
    let member = named("member", &of_instance("member"), &["--instance", "a"]);
    let free = named("free", &fixture.client("free"), &[]);
    let told = |status: &Value| {
        let rejected = list(status, "rejectedNodes");
        ["unproven", "a/other", "a/silent"].iter().all(|node| rejected.iter().any(|one| one["node"] == *node))
    };
    fixture.plane.wait_status("three are turned away", SOON, told).unwrap();
    let is_served = |status: &Value| {
        let is_in_sync = |id: &str| list(status, "nodes").iter().any(|one| one["id"] == id && one["inSync"] == true);
        is_in_sync("a/member") && is_in_sync("free")
    };
    let status = fixture.plane.wait_status("the others have what is theirs", SOON, is_served).unwrap();
    let member_view = list(&status, "nodes").into_iter().find(|one| one["id"] == "a/member").unwrap();
    assert_eq!(member_view["view"], "instance/a", "{status:#}");
    for (envoy, own) in
        [(&member, Some("one.a.test")), (&free, Some("free.test")), (&unproven, None), (&other, None), (&silent, None)]
    {
        let dump = dump(envoy);
        for name in ["one.a.test", "one.b.test", "free.test"] {
            assert_eq!(dump.contains(&format!("e2e/-/{name}/")), own == Some(name), "{name} {own:?}");
        }
    }
    // Each object has the gateways of its owner.
    let gateways = |status: &Value, name: &str| {
        let object = list(status, "objects").into_iter().find(|one| one["name"] == name);
        let gateways = object.map(|object| list(&object, "gateways")).unwrap_or_default();
        gateways.into_iter().map(|one| one["name"].clone()).collect::<Vec<_>>()
    };
    let expected = [vec![json!("a/member")], vec![], vec![json!("free")]];
    let has_own =
        |status: &Value| ["one.a.test", "one.b.test", "free.test"].map(|name| gateways(status, name)) == expected;
    fixture.plane.wait_status("each object has the gateways of its owner", SOON, has_own).unwrap();
}

/// A policy for one user, by which an edition of a cluster is found in an Envoy's configuration.
fn policy_of(user: &str) -> Value {
    json!([{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "users": [user]}]}])
}

#[test]
fn storm_of_edits_in_one_instance_leaves_anothers_their_time() {
    const STORM: usize = 300;
    const ROUNDS: usize = 60;
    let ca = Ca::new("all of them").unwrap();
    let server = ports::free_address().unwrap();
    let serving = ca.issue(&CertSpec::server("*.a.test", ["*.a.test"])).unwrap();
    let stormy: Vec<_> = (0..STORM).map(|number| format!("c{number}.a.test")).collect();
    let stormy: Vec<_> = stormy.iter().map(|name| manifest(name, "a", server, (&ca, &serving))).collect();
    let quiet_serving = ca.issue(&CertSpec::server("one.b.test", ["one.b.test"])).unwrap();
    let quiet = manifest("one.b.test", "b", server, (&ca, &quiet_serving));
    let mut objects = vec![("settings", settings()), ("a", instance("a")), ("b", instance("b"))];
    objects.extend(stormy.iter().map(|one| (one.name(), one.to_text())));
    objects.push(("quiet", quiet.to_text()));
    let fixture = Fixture::serving("instance-storm", &objects);
    let dns = vec!["b.instance.portcullis.dev".to_owned()];
    let identity = fixture.client_ca.issue(&CertSpec { dns, ..CertSpec::client("member", [""; 0]) }).unwrap();
    let member = fixture.envoy_with("member", "member", &identity, &fixture.server_ca, &["--instance", "b"]);
    fixture.plane.wait_in_sync(1, SOON).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Each round is an edit of each of three hundred clusters.
        let storm = scope.spawn(|| {
            let rounds = (0..ROUNDS).take_while(|_| !is_over.load(Ordering::Relaxed));
            rounds
                .map(|round| {
                    for one in &stormy {
                        let edited = one.clone().policies(policy_of(&format!("gust-{round}")));
                        fixture.write(one.name(), &edited.to_text());
                    }
                })
                .count()
        });
        for edit in 0..5 {
            let user = format!("edit-{edit}");
            let started = Instant::now();
            fixture.write("quiet", &quiet.clone().policies(policy_of(&user)).to_text());
            wait::until("the edit is in Envoy", SOON, || dump(&member).contains(&user).then_some(())).unwrap();
            eprintln!("edit {edit} took {:?}", started.elapsed());
        }
        is_over.store(true, Ordering::Relaxed);
        eprintln!("{} edits meanwhile", storm.join().unwrap() * STORM);
    });
    assert!(!dump(&member).contains("gust-"), "nothing of the other instance");
    let is_settled = |status: &Value| list(status, "nodes").iter().all(|one| one["inSync"] == true);
    fixture.plane.wait_status("the storm is over", SOON, is_settled).unwrap();
}

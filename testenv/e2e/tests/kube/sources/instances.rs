//! Instances in a Kubernetes: their status, and settings of their own.

use std::net::SocketAddr;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::{deps, ports, wait};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::fixture::{NAMESPACE, SourceFixture, USER, printed};

/// The name of the cluster of a team.
fn cluster(team: &str) -> String {
    format!("{team}.example.com")
}

/// A Kubernetes with a cluster of each of two teams, and a control plane that divides them.
struct Site {
    fixture: SourceFixture,
    plane: ControlPlane,
}

impl Site {
    /// `patch`: what is merged into the clusters.
    fn start(test: &str, patch: &Value) -> Option<Self> {
        Some(Self::of(SourceFixture::start(test)?, patch, &["--instances"]))
    }

    /// With policies, and the grants that these may need.
    fn with_policies(test: &str) -> Option<Self> {
        let definitions = deps::definitions().map(|dir| dir.join("gateway-api"));
        let definitions = deps::or_skip("the Gateway API", definitions).unwrap()?;
        let fixture = SourceFixture::start(test)?;
        fixture.kubectl(&["apply", "--server-side", "-f", definitions.to_str().unwrap()]).run_ok().unwrap();
        for kind in ["referencegrants.gateway.networking.k8s.io", "dispatchpolicies.portcullis.dev"] {
            let is_served = || fixture.kubectl(&["get", kind, "-A"]).run().unwrap().success().then_some(());
            wait::until("the kind is served", SOON, is_served).unwrap();
        }
        Some(Self::of(fixture, &json!({}), &["--instances", "--policies"]))
    }

    /// `kinds`: flags of the control plane, and of its rights.
    fn of(fixture: SourceFixture, patch: &Value, kinds: &[&str]) -> Self {
        let rights = ["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER];
        fixture.apply(&printed(&[&rights[..], kinds].concat()));
        fixture.apply(&printed(&["rbac", "--user", "portcullis"]));
        for team in ["a", "b"] {
            let manifest = fixture.manifest(&cluster(team)).set("/metadata/labels", json!({"team": team}));
            fixture.apply(&manifest.merge(patch).to_text());
        }
        let plane = plane(&fixture, "plane", kinds);
        Self { fixture, plane }
    }

    /// A control plane in the place of the one before, of which it has no saved state.
    fn replace_plane(&mut self) {
        self.plane = plane(&self.fixture, "next-plane", &["--instances"]);
    }

    /// The names of all that the control plane has in the status of an instance.
    fn objects_of(&self, instance: &str) -> Result<Vec<String>, String> {
        let address = self.plane.http_address().to_string();
        let arguments = ["status", "--address", &address, "-o", "json", "--instance", instance];
        let output = Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let objects = status["objects"].as_array().ok_or("no objects")?;
        Ok(objects.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect())
    }

    fn apply(&self, kind: &str, name: &str, spec: &Value) {
        let metadata = json!({"name": name});
        let object = json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
        self.fixture.apply(&object.to_string());
    }

    /// An Envoy of an instance.
    fn envoy(&self, instance: &str) -> Envoy {
        let node = format!("envoy-{instance}");
        let bootstrap = self.plane.bootstrap_with(&node, &["--instance", instance]).unwrap();
        Envoy::start(&self.fixture.run.make_dir(&node).unwrap(), &node, &EnvoyOptions::new(bootstrap)).unwrap()
    }

    /// Waits for a number in the status; the object.
    fn wait_number(&self, name: &str, field: &str, expected: u64) -> Value {
        wait::until_ok(&format!("{name} has {expected} {field}"), SOON, || {
            let object = self.fixture.kube.get(&format!("/apis/portcullis.dev/v1alpha1/instances/{name}")).unwrap();
            if object["status"][field] == expected { Ok(object) } else { Err(format!("{:#}", object["status"])) }
        })
        .unwrap()
    }

    /// Waits for conditions of the newest version, each as `Type Status Reason`; the object.
    fn wait(&self, name: &str, expected: &[&str]) -> Value {
        wait::until_ok(&format!("{name}: {expected:?}"), SOON, || {
            let object = self.fixture.kube.get(&format!("/apis/portcullis.dev/v1alpha1/instances/{name}")).unwrap();
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
            let found: Vec<String> = conditions
                .iter()
                .map(|one| format!("{} {} {}", text(one, "type"), text(one, "status"), text(one, "reason")))
                .collect();
            let is_newest = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let has_all = expected.iter().all(|one| found.iter().any(|found| found == one));
            if has_all && is_newest { Ok(object) } else { Err(format!("{:#}", object["status"])) }
        })
        .unwrap()
    }
}

fn plane(fixture: &SourceFixture, name: &str, kinds: &[&str]) -> ControlPlane {
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(kinds.iter().copied()).collect();
    ControlPlane::start_from(&fixture.run.make_dir(name).unwrap(), &flags).unwrap()
}

fn of_team(team: &str) -> Value {
    json!({"clustersSelector": {"matchLabels": {"team": team}}})
}

#[test]
fn status_of_an_instance_counts_what_belongs_to_it() {
    let Some(site) = Site::start("instances-status", &json!({})) else { return };
    site.apply("Instance", "a", &of_team("a"));
    site.wait("a", &["Accepted True Accepted", "Conflicted False NoConflicts", "Ready False NoEnvoys"]);
    let object = site.wait_number("a", "clusters", 1);
    assert_eq!(object["status"]["envoys"], 0);
    // It is younger, or comes later by its name.
    site.apply("Instance", "all", &json!({"clustersSelector": {}}));
    let object = site.wait("all", &["Accepted True Accepted", "Conflicted True OwnedByOthers"]);
    let message = object["status"]["conditions"][1]["message"].as_str().unwrap();
    assert_eq!(message, "UpstreamCluster a.example.com belongs to Instance a");
    site.wait_number("all", "clusters", 1);

    let envoy = site.envoy("a");
    envoy.wait_ready(SOON).unwrap();
    site.wait("a", &["Ready True Ready"]);
    site.wait_number("a", "envoys", 1);
    let table = site.fixture.admin(&["get", "instances"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = ["NAME", "ACCEPTED", "CONFLICTED", "READY", "GATEWAYS", "CLUSTERS", "ENVOYS", "GATEWAYENVOYS", "AGE"];
    assert_eq!((&rows[0][..], &rows[1][..8]), (&head[..], &["a", "True", "False", "True", "0", "1", "1", "0"][..]));

    let address = site.plane.http_address().to_string();
    let told = |instance: &str| {
        let arguments = ["status", "--address", &address, "-o", "json", "--instance", instance];
        let output = Command::new(deps::portcullis().unwrap()).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let status: Value = serde_json::from_str(&told("a")).unwrap();
    let names = |field: &str, key: &str| -> Vec<String> {
        status[field].as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names("objects", "name"), names("nodes", "id")),
        (vec![cluster("a"), "a".to_owned()], vec!["envoy-a".to_owned()])
    );
    assert_eq!(told("gone"), "");
    site.apply("Instance", "a", &json!({"clustersSelector": {"matchFields": []}}));
    let object = site.wait("a", &["Accepted False Invalid", "Ready False NotAccepted"]);
    assert_eq!(object["status"]["clusters"], 1, "it keeps what it has");
}

#[test]
fn owner_of_a_cluster_stays_over_a_start_without_saved_state() {
    let Some(mut site) = Site::start("instances-owner", &json!({})) else { return };
    site.apply("Instance", "older", &of_team("none"));
    site.wait("older", &["Accepted True Accepted"]);
    site.apply("Instance", "owner", &of_team("a"));
    site.wait_number("owner", "clusters", 1);
    let all = json!({"clustersSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}});
    site.apply("Instance", "older", &all);
    site.wait("older", &["Conflicted True OwnedByOthers"]);
    let path = format!("/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters/{}", cluster("a"));
    wait::until_ok("the status names the owner", SOON, || {
        let object = site.fixture.kube.get(&path).map_err(|error| error.to_string())?;
        if object["status"]["instance"] == "owner" { Ok(()) } else { Err(format!("{:#}", object["status"])) }
    })
    .unwrap();
    site.replace_plane();
    wait::until_ok("the owner is the same", SOON, || {
        let found = ["owner", "older"].map(|instance| site.objects_of(instance));
        let [Ok(owner), Ok(older)] = &found else { return Err(format!("{found:?}")) };
        let is_same = owner.contains(&cluster("a")) && !older.contains(&cluster("a")) && older.contains(&cluster("b"));
        if is_same { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .unwrap();
}

/// Settings of an instance: a port, and the CA of its clients.
fn settings(address: SocketAddr, client_ca: &Ca) -> Value {
    let listener = json!({"address": address.ip().to_string(), "port": address.port()});
    json!({
        "listener": listener, "defaultClientCA": {"data": STANDARD.encode(client_ca.pem())},
        "wasmModulePath": deps::wasm_path(),
    })
}

#[test]
fn client_of_one_instances_ca_is_refused_at_anothers_envoy() {
    // The clusters have no client CA of their own.
    let patch = json!({"spec": {"secureServing": {"clientCAData": null}}});
    let Some(site) = Site::start("instances-settings", &patch) else { return };
    let instances = ["a", "b"].map(|team| {
        let (ca, address) = (Ca::new(&format!("clients of {team}")).unwrap(), ports::free_address().unwrap());
        let alice = ca.issue(&CertSpec::client("alice", [""; 0])).unwrap();
        let mut spec = of_team(team);
        spec["settings"] = json!(format!("own-{team}"));
        site.apply("Instance", team, &spec);
        site.wait(team, &["Accepted False SettingsNotAccepted"]);
        site.apply("GatewaySettings", &format!("own-{team}"), &settings(address, &ca));
        site.wait(team, &["Accepted True Accepted"]);
        let envoy = site.envoy(team);
        envoy.wait_listening(address, SOON).unwrap();
        (team, address, alice, ca, envoy)
    });
    let answer = |team: &str, address: SocketAddr, client: &Identity| {
        let target = TlsTarget::new(address).sni(&cluster(team)).trust(&site.fixture.serving_ca).identity(client);
        H2Client::connect(&target).and_then(|client| client.get("/version", &[])).map(|answer| answer.status)
    };
    let wait_answer = |team: &str, address: SocketAddr, client: &Identity, expected: u16| {
        wait::until_ok(&format!("{expected} at {team}"), SOON, || match answer(team, address, client) {
            Ok(status) if status == expected => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .unwrap();
    };
    let [(a, at_a, of_a, _, _), (b, at_b, of_b, ca_of_b, _)] = &instances;
    for (team, address, good, bad) in [(a, at_a, of_a, of_b), (b, at_b, of_b, of_a)] {
        wait_answer(team, *address, good, 200);
        wait_answer(team, *address, bad, 401);
    }
    // An edit acts on its own instance alone.
    site.apply("GatewaySettings", "own-a", &settings(*at_a, ca_of_b));
    wait_answer(a, *at_a, of_b, 200);
    wait_answer(a, *at_a, of_a, 401);
    wait_answer(b, *at_b, of_a, 401);
    // Without its settings an instance goes on by those that it had.
    site.fixture.admin(&["delete", "gatewaysettings", "own-a"]);
    site.wait(a, &["Accepted False SettingsNotAccepted"]);
    wait_answer(a, *at_a, of_b, 200);
    wait_answer(a, *at_a, of_a, 401);
    let used = site.fixture.kube.get("/apis/portcullis.dev/v1alpha1/gatewaysettings/own-b").unwrap();
    assert_eq!(used["status"]["conditions"][0]["reason"], "Accepted", "an instance uses them: {used:#}");
}

/// A `kubectl` command of a tenant's, and whether kube-apiserver permits it.
/// The instances are there before the policy, and the other way round.
#[test]
fn policy_of_two_instances_is_refused_in_either_order() {
    let Some(site) = Site::with_policies("instances-policy") else { return };
    let target =
        |team: &str| json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": cluster(team)});
    let all = json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}]});
    let policy = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "DispatchPolicy",
        "metadata": {"name": "both", "namespace": NAMESPACE},
        "spec": {"targetRefs": [target("a"), target("b")], "overrides": {"dispatchPolicies": [all]}},
    });
    let wait_accepted = |expected: &str, names: &[&str]| {
        wait::until_ok(&format!("the policy is {expected}"), SOON, || {
            let path = format!("/apis/portcullis.dev/v1alpha1/namespaces/{NAMESPACE}/dispatchpolicies/both");
            let found = site.fixture.kube.get(&path).unwrap();
            let ancestors = found["status"]["ancestors"].as_array().cloned().unwrap_or_default();
            let is_so = |ancestor: &Value| {
                let conditions = ancestor["conditions"].as_array().into_iter().flatten();
                let mut accepted = conditions.filter(|one| one["type"] == "Accepted");
                accepted.any(|one| {
                    let message = one["message"].as_str().unwrap_or_default();
                    one["reason"] == expected && names.iter().all(|name| message.contains(name))
                })
            };
            let is_right = ancestors.len() == 2 && ancestors.iter().all(is_so);
            if is_right { Ok(()) } else { Err(format!("{:#}", found["status"])) }
        })
        .unwrap();
    };
    let both = ["Instance a", "Instance b"];
    for team in ["a", "b"] {
        site.apply("Instance", team, &of_team(team));
        site.wait_number(team, "clusters", 1);
    }
    site.fixture.apply(&policy.to_string());
    wait_accepted("SpansInstances", &both);
    site.fixture.admin(&["delete", "instances", "a", "b"]);
    wait_accepted("Accepted", &[]);
    for team in ["b", "a"] {
        site.apply("Instance", team, &of_team(team));
    }
    wait_accepted("SpansInstances", &both);
}

/// As kubectl names them.
const GATEWAYS: &str = "gateways.gateway.networking.k8s.io";

type Attempt<'a> = (&'a [&'a str], bool);

/// With the role that `portcullis rbac --instance` prints.
#[test]
fn tenant_of_an_instance_reads_and_edits_its_own_alone() {
    let definitions = deps::definitions().map(|dir| dir.join("gateway-api"));
    let Some(definitions) = deps::or_skip("the Gateway API", definitions).unwrap() else { return };
    let Some(site) = Site::start("instances-tenant", &json!({})) else { return };
    let fixture = &site.fixture;
    fixture.kubectl(&["apply", "--server-side", "-f", definitions.to_str().unwrap()]).run_ok().unwrap();
    let is_served = || fixture.kubectl(&["get", GATEWAYS, "-A"]).run().unwrap().success().then_some(());
    wait::until("Gateways are served", SOON, is_served).unwrap();
    // In the files alone: the tenant needs no Envoys.
    let instance = |team: &str| {
        let (metadata, mut spec) = (json!({"name": team}), of_team(team));
        spec["settings"] = json!(format!("of-{team}"));
        spec["gatewaysSelector"] = json!({"matchLabels": {"team": team}});
        json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "Instance", "metadata": metadata, "spec": spec})
    };
    let gateway = |team: &str| {
        let metadata = json!({"name": format!("of-{team}"), "namespace": NAMESPACE, "labels": {"team": team}});
        let listeners = json!([{"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}}]);
        let spec = json!({"gatewayClassName": "of-others", "listeners": listeners});
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": metadata, "spec": spec})
    };
    let labelled = |team: &str| fixture.manifest(&cluster(team)).set("/metadata/labels", json!({"team": team}));
    let clusters = ["a", "b"].map(|team| labelled(team).to_text());
    let files = fixture.run.make_dir("files").unwrap();
    let others = [instance("a"), instance("b"), gateway("a"), gateway("b")].map(|one| one.to_string());
    let all: Vec<&str> = clusters.iter().chain(&others).map(String::as_str).collect();
    std::fs::write(files.join("all.yaml"), all.join("\n---\n")).unwrap();
    let directory = files.display().to_string();
    for team in ["a", "b"] {
        site.apply("Instance", team, &of_team(team));
        site.wait_number(team, "clusters", 1);
        site.apply("GatewaySettings", &format!("of-{team}"), &json!({}));
        fixture.apply(&gateway(team).to_string());
        fixture.apply(&printed(&["rbac", "--instance", team, "--user", &format!("tenant-{team}"), "-f", &directory]));
    }
    let user = fixture.kube.client_ca().issue(&CertSpec::client("tenant-a", [""; 0])).unwrap();
    let server = format!("https://{}", fixture.kube.address(0).unwrap());
    let kubeconfig = Kubeconfig::new(server).ca(fixture.kube.server_ca()).identity(&user);
    let kubeconfig = kubeconfig.write(&fixture.run.join("tenant.kubeconfig")).unwrap();
    let run = |arguments: &[&str]| fixture.kube.kubectl(&kubeconfig).args(arguments).run().unwrap();
    let has_role = || run(&["get", "instances", "a"]).success().then_some(());
    wait::until("the tenant's role", SOON, has_role).unwrap();

    let label = r#"{"metadata":{"labels":{"by":"tenant"}}}"#;
    let status = r#"{"status":{"conditions":[]}}"#;
    let [own, others] = [cluster("a"), cluster("b")];
    let unnamed = fixture.run.join("new.yaml").display().to_string();
    let new = fixture.manifest("new.example.com").set("/metadata/labels", json!({"team": "a"}));
    std::fs::write(&unnamed, new.to_text()).unwrap();
    let attempts: [Attempt<'_>; 24] = [
        (&["get", "upstreamclusters", &own], true),
        (&["patch", "upstreamclusters", &own, "--type=merge", "-p", label], true),
        (&["patch", "upstreamclusters", &own, "--type=merge", "--subresource=status", "-p", status], false),
        (&["delete", "upstreamclusters", &own], false),
        (&["get", "upstreamclusters", &others], false),
        (&["patch", "upstreamclusters", &others, "--type=merge", "-p", label], false),
        (&["get", "upstreamclusters"], false),
        (&["get", "instances", "a"], true),
        (&["patch", "instances", "a", "--type=merge", "-p", label], false),
        (&["get", "instances", "b"], false),
        (&["get", "instances"], false),
        (&["create", "-f", &unnamed], false),
        (&["get", "gatewaysettings"], false),
        (&["get", "gatewaysettings", "of-a"], true),
        (&["patch", "gatewaysettings", "of-a", "--type=merge", "-p", label], false),
        (&["get", "gatewaysettings", "of-b"], false),
        (&["get", GATEWAYS, "of-a", "-n", NAMESPACE], true),
        (&["delete", GATEWAYS, "of-a", "-n", NAMESPACE], false),
        (&["get", GATEWAYS, "of-b", "-n", NAMESPACE], false),
        (&["get", "secrets", "-n", NAMESPACE], false),
        (&["get", "configmaps", "-n", NAMESPACE], false),
        (&["get", "leases.coordination.k8s.io", "-n", NAMESPACE], false),
        (&["get", "--raw", "/metrics"], false),
        (&["auth", "can-i", "get", "/status"], false),
    ];
    for (arguments, is_permitted) in attempts {
        let output = run(arguments);
        assert_eq!(output.success(), is_permitted, "{arguments:?}: {}{}", output.stdout, output.stderr);
        let is_refused = output.stderr.contains("forbidden") || output.stdout.starts_with("no");
        assert!(is_permitted || is_refused, "{arguments:?}: {}{}", output.stdout, output.stderr);
    }
}

//! xDS over the network: mutual TLS, and a node is who its certificate says.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use portcullis_e2e::{default_certificate, settings, xds_client_flags, xds_server_flags};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{ports, wait};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(20);
const SECRET: &str = "e2e/-/-/default-certificate";

pub(super) struct Fixture {
    pub(super) plane: ControlPlane,
    xds: SocketAddr,
    dir: PathBuf,
    pub(super) server_ca: Ca,
    pub(super) client_ca: Ca,
    run: RunDir,
}

impl Fixture {
    fn start(test: &str) -> Self {
        let default = default_certificate(&Ca::new("serving").unwrap()).unwrap();
        Self::serving(test, &[("settings", settings("e2e", ports::free_address().unwrap(), &default))])
    }

    /// One whose control plane has these manifests.
    pub(super) fn serving(test: &str, objects: &[(&str, String)]) -> Self {
        Self::serving_with(test, objects, &[])
    }

    /// The same, with more flags of the control plane.
    pub(super) fn serving_with(test: &str, objects: &[(&str, String)], more: &[&str]) -> Self {
        let run = RunDir::new(test).unwrap();
        let (server_ca, client_ca) = (Ca::new("xds servers").unwrap(), Ca::new("xds clients").unwrap());
        let dir = run.make_dir("net").unwrap();
        let manifests = run.make_dir("net/manifests").unwrap();
        for (name, text) in objects {
            run.write(&format!("net/manifests/{name}.yaml"), text).unwrap();
        }
        let server = server_ca.issue(&CertSpec::server("xds", ["xds.internal"])).unwrap();
        server.write_pem(&dir.join("server.pem"), &dir.join("server.key")).unwrap();
        client_ca.write_pem(&dir.join("clients.pem")).unwrap();
        let xds = ports::free_address().unwrap();
        let [cert, key, ca] = ["server.pem", "server.key", "clients.pem"].map(|file| dir.join(file));
        let flags = xds_server_flags(xds, [&cert, &key, &ca]);
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let plane = ControlPlane::start_with(&dir, &manifests, &flags).unwrap();
        Fixture { plane, xds, dir, server_ca, client_ca, run }
    }

    /// Puts a manifest into the place of the one of that name.
    pub(super) fn write(&self, name: &str, text: &str) {
        self.run.write(&format!("net/manifests/{name}.yaml"), text).unwrap();
    }

    /// An Envoy that calls itself `node` and comes with `identity`, trusting `server_ca`.
    fn envoy(&self, name: &str, node: &str, identity: &Identity, server_ca: &Ca) -> Envoy {
        self.envoy_with(name, node, identity, server_ca, &[])
    }

    /// The same, with more flags of its bootstrap.
    pub(super) fn envoy_with(
        &self,
        name: &str,
        node: &str,
        identity: &Identity,
        server_ca: &Ca,
        more: &[&str],
    ) -> Envoy {
        let flags = self.client_flags(name, identity, server_ca);
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let bootstrap = self.plane.bootstrap_at(node, &flags).unwrap();
        Envoy::start(&self.dir, name, &EnvoyOptions::new(bootstrap)).unwrap()
    }

    /// An agent whose Envoy is of an instance, which its certificate names.
    pub(super) fn agent_of(&self, instance: &str) -> Agent {
        let (node, dns) = (format!("envoy-{instance}"), vec![format!("{instance}.instance.portcullis.dev")]);
        let identity = self.client_ca.issue(&CertSpec { dns, ..CertSpec::client(&node, [""; 0]) }).unwrap();
        let mut options = AgentOptions::new([]);
        options.flags = self.client_flags(&node, &identity, &self.server_ca);
        options.flags.extend(["--instance", instance].map(str::to_owned));
        Agent::start(&self.dir, &node, &options).unwrap()
    }

    /// The flags of a program that comes with `identity`, trusting `server_ca`.
    fn client_flags(&self, name: &str, identity: &Identity, server_ca: &Ca) -> Vec<String> {
        let file = |suffix: &str| self.dir.join(format!("{name}.{suffix}"));
        identity.write_pem(&file("pem"), &file("key")).unwrap();
        server_ca.write_pem(&file("ca")).unwrap();
        xds_client_flags(self.xds, [&file("pem"), &file("key"), &file("ca")], "xds.internal")
    }

    pub(super) fn client(&self, name: &str) -> Identity {
        self.client_ca.issue(&CertSpec::client(name, [""; 0])).unwrap()
    }
}

fn attempts(envoy: &Envoy) -> u64 {
    envoy.admin().stat("cluster.portcullis-xds.upstream_cx_total").unwrap()
}

#[test]
fn envoy_with_a_certificate_of_its_name_is_served() {
    let fixture = Fixture::start("mtls");
    let envoy = fixture.envoy("envoy-0", "envoy-0", &fixture.client("envoy-0"), &fixture.server_ca);
    let status = fixture.plane.wait_in_sync(1, SOON).unwrap();
    assert_eq!(status["nodes"][0]["id"], "envoy-0");
    envoy.wait_ready(SOON).unwrap();
    assert!(envoy.admin().config_dump().unwrap().to_string().contains(SECRET));
}

/// An Envoy that is not started by `portcullis agent`.
#[test]
fn xds_certificates_are_found_by_files_of_the_bootstrap() {
    let fixture = Fixture::start("sds-dir");
    let directory = fixture.dir.join("sds");
    let more = ["--xds-sds-dir", directory.to_str().unwrap()];
    let foreign = Ca::new("somebody else").unwrap().issue(&CertSpec::client("envoy-0", [""; 0])).unwrap();
    let envoy = fixture.envoy_with("envoy-0", "envoy-0", &foreign, &fixture.server_ca, &more);
    wait::until("it tried twice", SOON, || (attempts(&envoy) >= 2).then_some(())).unwrap();
    // Certificate and key one after the other, as a script would move them.
    fixture.client("envoy-0").write_pem(&fixture.dir.join("new.pem"), &fixture.dir.join("new.key")).unwrap();
    for (new, old) in [("new.key", "envoy-0.key"), ("new.pem", "envoy-0.pem")] {
        std::fs::rename(fixture.dir.join(new), fixture.dir.join(old)).unwrap();
    }
    fixture.plane.wait_in_sync(1, SOON).unwrap();
    for file in std::fs::read_dir(&directory).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("PRIVATE KEY"), "{text}");
    }
}

#[test]
fn foreign_node_sees_nothing() {
    let fixture = Fixture::start("foreign");
    let good = fixture.envoy("good", "good", &fixture.client("good"), &fixture.server_ca);
    fixture.plane.wait_in_sync(1, SOON).unwrap();
    let thief = fixture.envoy("thief", "good", &fixture.client("thief"), &fixture.server_ca);
    let told = |status: &Value| status["rejectedNodes"][0]["by"] == "the certificate of thief";
    let status = fixture.plane.wait_status("the thief is turned away", SOON, told).unwrap();
    assert_eq!(status["rejectedNodes"][0]["node"], "good");
    let nodes = status["nodes"].as_array().unwrap();
    assert!(nodes.len() == 1 && nodes[0]["connected"] == true && nodes[0]["inSync"] == true, "{status:#}");
    assert!(!thief.admin().config_dump().unwrap().to_string().contains(SECRET));
    assert!(good.admin().config_dump().unwrap().to_string().contains(SECRET));
}

#[test]
fn envoy_of_a_gateway_is_bound_to_it_by_its_certificate() {
    let fixture = Fixture::start("gateways");
    let of_gateway = |node: &str| {
        let dns = vec!["edge.infra.gateway.portcullis.dev".to_owned()];
        fixture.client_ca.issue(&CertSpec { dns, ..CertSpec::client(node, [""; 0]) }).unwrap()
    };
    let claim = |gateway: &'static str| ["--gateway", gateway];
    let named = |name: &str, identity: &Identity, more: &[&str]| {
        fixture.envoy_with(name, name, identity, &fixture.server_ca, more)
    };
    let unproven = named("unproven", &fixture.client("unproven"), &claim("infra/edge"));
    let other = named("other", &of_gateway("other"), &claim("infra/other"));
    let silent = named("silent", &of_gateway("silent"), &[]);
    let member = named("member", &of_gateway("member"), &claim("infra/edge"));
    let list = |status: &Value, field: &str| status[field].as_array().cloned().unwrap_or_default();
    let told = |status: &Value| {
        let rejected = list(status, "rejectedNodes");
        let names = ["unproven", "gateway:infra/edge/other", "gateway:infra/edge/silent"];
        names.iter().all(|node| rejected.iter().any(|one| one["node"] == *node))
    };
    let status = fixture.plane.wait_status("three are turned away", SOON, told).unwrap();
    assert_eq!(status["rejectedNodes"].as_array().unwrap().len(), 3, "{status:#}");
    let name = "gateway:infra/edge/member";
    let is_member = |one: &Value| one["id"] == name && one["view"] == "gateway/infra/edge" && one["inSync"] == true;
    let is_served = |status: &Value| list(status, "nodes").iter().any(is_member);
    let status = fixture.plane.wait_status("the member has all that is its own", SOON, is_served).unwrap();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 1, "{status:#}");
    // Without the Gateway API there is no such Gateway, and what all others have is not for its Envoys.
    assert!(!member.admin().config_dump().unwrap().to_string().contains("dynamic_listeners"));
    for one in [&unproven, &other, &silent, &member] {
        assert!(!one.admin().config_dump().unwrap().to_string().contains(SECRET));
    }
}

#[test]
fn client_without_a_trusted_certificate_is_rejected() {
    let fixture = Fixture::start("strangers");
    let other = Ca::new("somebody else").unwrap();
    let stranger = other.issue(&CertSpec::client("envoy-0", [""; 0])).unwrap();
    let envoy = fixture.envoy("stranger", "envoy-0", &stranger, &fixture.server_ca);
    let expired = fixture.client_ca.issue(&CertSpec::client("envoy-1", [""; 0]).expired()).unwrap();
    let late = fixture.envoy("late", "envoy-1", &expired, &fixture.server_ca);
    // An Envoy does not send its name to another server, either.
    let deceived = fixture.envoy("deceived", "envoy-2", &fixture.client("envoy-2"), &other);
    for one in [&envoy, &late, &deceived] {
        wait::until("it tried twice", SOON, || (attempts(one) >= 2).then_some(())).unwrap();
        assert!(!one.admin().config_dump().unwrap().to_string().contains(SECRET));
    }
    // In the clear nothing is said.
    let plain = portcullis_harness::client::plain::get(fixture.xds, "/").map(|response| response.status);
    assert!(plain.is_err(), "{plain:?}");
    assert_eq!(fixture.plane.status().unwrap()["nodes"], Value::Array(Vec::new()));
}

#[test]
fn credentials_are_read_anew_when_they_change() {
    let fixture = Fixture::start("rotation");
    let newer = Ca::new("newer clients").unwrap();
    let client = newer.issue(&CertSpec::client("envoy-0", ["x"])).unwrap();
    let envoy = fixture.envoy("envoy-0", "envoy-0", &client, &fixture.server_ca);
    wait::until("it tried twice", SOON, || (attempts(&envoy) >= 2).then_some(())).unwrap();
    assert_eq!(fixture.plane.status().unwrap()["nodes"], Value::Array(Vec::new()));
    // Half a file changes nothing; the whole one does.
    std::fs::write(fixture.dir.join("clients.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    let refused = || fixture.plane.process().log().contains("stay as they are").then_some(());
    wait::until("the half is refused", SOON, refused).unwrap();
    newer.write_pem(&fixture.dir.join("clients.pem")).unwrap();
    fixture.plane.wait_in_sync(1, SOON).unwrap();
}

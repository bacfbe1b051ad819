//! xDS over the network: mutual TLS, and a node is who its certificate says.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_e2e::{default_certificate, settings};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{ports, wait};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(20);
const SECRET: &str = "e2e/-/-/default-certificate";

struct World {
    plane: ControlPlane,
    xds: SocketAddr,
    dir: PathBuf,
    server_ca: Ca,
    client_ca: Ca,
    _run: RunDir,
}

impl World {
    fn start(test: &str) -> Self {
        let run = RunDir::new(test).unwrap();
        let (server_ca, client_ca) = (Ca::new("xds servers").unwrap(), Ca::new("xds clients").unwrap());
        let dir = run.make_dir("net").unwrap();
        let manifests = run.make_dir("net/manifests").unwrap();
        let default = default_certificate(&Ca::new("serving").unwrap()).unwrap();
        let text = settings("e2e", ports::free_address().unwrap(), &default);
        run.write("net/manifests/settings.yaml", text).unwrap();
        let server = server_ca.issue(&CertSpec::server("xds", ["xds.internal"])).unwrap();
        server.write_pem(&dir.join("server.pem"), &dir.join("server.key")).unwrap();
        client_ca.write_pem(&dir.join("clients.pem")).unwrap();
        let xds = ports::free_address().unwrap();
        let path = |name: &str| dir.join(name).display().to_string();
        let (address, cert, key, ca) = (xds.to_string(), path("server.pem"), path("server.key"), path("clients.pem"));
        let flags = ["--xds-address", &address, "--xds-cert", &cert, "--xds-key", &key, "--xds-client-ca", &ca];
        let plane = ControlPlane::start_with(&dir, &manifests, &flags).unwrap();
        World { plane, xds, dir, server_ca, client_ca, _run: run }
    }

    /// An Envoy that calls itself `node` and comes with `identity`, trusting `server_ca`.
    fn envoy(&self, name: &str, node: &str, identity: &Identity, server_ca: &Ca) -> Envoy {
        self.envoy_with(name, node, identity, server_ca, &[])
    }

    /// The same, with more flags of its bootstrap.
    fn envoy_with(&self, name: &str, node: &str, identity: &Identity, server_ca: &Ca, more: &[&str]) -> Envoy {
        let file = |suffix: &str| self.dir.join(format!("{name}.{suffix}"));
        identity.write_pem(&file("pem"), &file("key")).unwrap();
        server_ca.write_pem(&file("ca")).unwrap();
        let text = |path: &Path| path.display().to_string();
        let (address, cert, key, ca) = (self.xds.to_string(), file("pem"), file("key"), file("ca"));
        let (cert, key, ca) = (text(&cert), text(&key), text(&ca));
        let flags = [
            "--xds-address",
            &address,
            "--xds-cert",
            &cert,
            "--xds-key",
            &key,
            "--xds-server-ca",
            &ca,
            "--xds-server-name",
            "xds.internal",
        ];
        let bootstrap = self.plane.bootstrap_at(node, &[&flags[..], more].concat()).unwrap();
        Envoy::start(&self.dir, name, &EnvoyOptions::new(bootstrap)).unwrap()
    }

    fn client(&self, name: &str) -> Identity {
        self.client_ca.issue(&CertSpec::client(name, [""; 0])).unwrap()
    }
}

fn attempts(envoy: &Envoy) -> u64 {
    envoy.admin().stat("cluster.portcullis-xds.upstream_cx_total").unwrap()
}

#[test]
fn envoy_with_a_certificate_of_its_name_is_served() {
    let world = World::start("mtls");
    let envoy = world.envoy("envoy-0", "envoy-0", &world.client("envoy-0"), &world.server_ca);
    let status = world.plane.wait_in_sync(1, SOON).unwrap();
    assert_eq!(status["nodes"][0]["id"], "envoy-0");
    envoy.wait_ready(SOON).unwrap();
    assert!(envoy.admin().config_dump().unwrap().to_string().contains(SECRET));
}

/// An Envoy that is not started by `portcullis agent`.
#[test]
fn xds_certificates_are_found_by_files_of_the_bootstrap() {
    let world = World::start("sds-dir");
    let directory = world.dir.join("sds");
    let more = ["--xds-sds-dir", directory.to_str().unwrap()];
    let foreign = Ca::new("somebody else").unwrap().issue(&CertSpec::client("envoy-0", [""; 0])).unwrap();
    let envoy = world.envoy_with("envoy-0", "envoy-0", &foreign, &world.server_ca, &more);
    wait::until("it tried twice", SOON, || (attempts(&envoy) >= 2).then_some(())).unwrap();
    // Certificate and key one after the other, as a script would move them.
    world.client("envoy-0").write_pem(&world.dir.join("new.pem"), &world.dir.join("new.key")).unwrap();
    for (new, old) in [("new.key", "envoy-0.key"), ("new.pem", "envoy-0.pem")] {
        std::fs::rename(world.dir.join(new), world.dir.join(old)).unwrap();
    }
    world.plane.wait_in_sync(1, SOON).unwrap();
    for file in std::fs::read_dir(&directory).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("PRIVATE KEY"), "{text}");
    }
}

#[test]
fn foreign_node_sees_nothing() {
    let world = World::start("foreign");
    let good = world.envoy("good", "good", &world.client("good"), &world.server_ca);
    world.plane.wait_in_sync(1, SOON).unwrap();
    let thief = world.envoy("thief", "good", &world.client("thief"), &world.server_ca);
    let told = |status: &Value| status["rejectedNodes"][0]["by"] == "the certificate of thief";
    let status = world.plane.wait_status("the thief is turned away", SOON, told).unwrap();
    assert_eq!(status["rejectedNodes"][0]["node"], "good");
    let nodes = status["nodes"].as_array().unwrap();
    assert!(nodes.len() == 1 && nodes[0]["connected"] == true && nodes[0]["inSync"] == true, "{status:#}");
    assert!(!thief.admin().config_dump().unwrap().to_string().contains(SECRET));
    assert!(good.admin().config_dump().unwrap().to_string().contains(SECRET));
}

#[test]
fn client_without_a_trusted_certificate_is_rejected() {
    let world = World::start("strangers");
    let other = Ca::new("somebody else").unwrap();
    let stranger = other.issue(&CertSpec::client("envoy-0", [""; 0])).unwrap();
    let envoy = world.envoy("stranger", "envoy-0", &stranger, &world.server_ca);
    let expired = world.client_ca.issue(&CertSpec::client("envoy-1", [""; 0]).expired()).unwrap();
    let late = world.envoy("late", "envoy-1", &expired, &world.server_ca);
    // An Envoy does not tell its name to another server, either.
    let deceived = world.envoy("deceived", "envoy-2", &world.client("envoy-2"), &other);
    for one in [&envoy, &late, &deceived] {
        wait::until("it tried twice", SOON, || (attempts(one) >= 2).then_some(())).unwrap();
        assert!(!one.admin().config_dump().unwrap().to_string().contains(SECRET));
    }
    // In the clear nothing is said.
    let plain = portcullis_harness::client::plain::get(world.xds, "/").map(|response| response.status);
    assert!(plain.is_err(), "{plain:?}");
    assert_eq!(world.plane.status().unwrap()["nodes"], Value::Array(Vec::new()));
}

#[test]
fn credentials_are_read_anew_when_they_change() {
    let world = World::start("rotation");
    let newer = Ca::new("newer clients").unwrap();
    let client = newer.issue(&CertSpec::client("envoy-0", ["x"])).unwrap();
    let envoy = world.envoy("envoy-0", "envoy-0", &client, &world.server_ca);
    wait::until("it tried twice", SOON, || (attempts(&envoy) >= 2).then_some(())).unwrap();
    assert_eq!(world.plane.status().unwrap()["nodes"], Value::Array(Vec::new()));
    // Half a file changes nothing; the whole one does.
    std::fs::write(world.dir.join("clients.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    let refused = || world.plane.process().log().contains("stay as they are").then_some(());
    wait::until("the half is refused", SOON, refused).unwrap();
    newer.write_pem(&world.dir.join("clients.pem")).unwrap();
    world.plane.wait_in_sync(1, SOON).unwrap();
}

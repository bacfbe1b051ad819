//! The control plane hears how endpoints are.

use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::ports;
use portcullis_stub_apiserver::{Action, Fault};

use super::site::{Grounds, SOON, Site};
use crate::fixture::NAME;

/// Whether the status lists one endpoint, healthy or not.
fn seen(healthy: u64) -> impl Fn(&serde_json::Value) -> bool {
    move |status| {
        let seen = &status["endpoints"][format!("e2e/-/{NAME}/all.h2")]["envoy-0"];
        seen["total"] == 1 && seen["healthy"] == healthy
    }
}

#[test]
fn control_plane_hears_of_endpoints_that_fail_and_recover() {
    let grounds = Grounds::new("agent-reports");
    let site = Site::start(&grounds, "envoy-0", |_| ());
    site.plane.wait_status("the endpoint is healthy", SOON, seen(1)).unwrap();
    let failing = Fault::new("/readyz", Action::Respond { status: 500, headers: Vec::new(), body: String::new() });
    grounds.stub.fault(failing);
    site.plane.wait_status("the endpoint has failed", SOON * 2, seen(0)).unwrap();
    grounds.stub.clear_faults();
    site.plane.wait_status("the endpoint has recovered", SOON * 2, seen(1)).unwrap();
}

#[test]
fn control_plane_on_another_machine_hears_of_them_by_name() {
    let grounds = Grounds::new("agent-network");
    let ca = Ca::new("control planes and gateways").unwrap();
    let plane = ca.issue(&CertSpec::server("plane", ["plane.test"])).unwrap();
    let gateway = ca.issue(&CertSpec::client("envoy-0", [""; 0])).unwrap();
    let file = |name: &str, text: String| grounds.run.write(name, text).unwrap().display().to_string();
    let ca = file("ca.pem", ca.pem());
    let (address, xds) = (ports::free_address().unwrap(), ports::free_address().unwrap().to_string());
    let (cert, key) = (file("plane.pem", plane.pem()), file("plane.key", plane.key_pem()));
    let flags = ["--xds-address", &xds, "--xds-cert", &cert, "--xds-key", &key, "--xds-client-ca", &ca];
    let manifests = grounds.manifests("manifests", address);
    let plane = ControlPlane::start_with(&grounds.run.make_dir("plane").unwrap(), &manifests, &flags).unwrap();
    let mut options = AgentOptions::new([]);
    let (cert, key) = (file("gateway.pem", gateway.pem()), file("gateway.key", gateway.key_pem()));
    let flags = ["--xds-address", &xds, "--xds-cert", &cert, "--xds-key", &key, "--xds-server-ca", &ca];
    options.flags.extend(flags.map(str::to_owned));
    options.flags.extend(["--xds-server-name", "plane.test"].map(str::to_owned));
    let agent = Agent::start(grounds.run.path(), "envoy-0", &options).unwrap();
    agent.wait_ready(SOON).unwrap();
    plane.wait_status("the endpoint is healthy", SOON, seen(1)).unwrap();
}

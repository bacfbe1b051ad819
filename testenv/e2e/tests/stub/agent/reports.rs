//! The control plane hears how endpoints are.

use portcullis_e2e::{xds_client_flags, xds_server_flags};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::ports;
use portcullis_stub_apiserver::{Action, Fault};

use super::fixture::{AgentFixture, SOON};
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
    let fixture = AgentFixture::new("agent-reports");
    let site = fixture.site("envoy-0").start().unwrap();
    site.plane().wait_status("the endpoint is healthy", SOON, seen(1)).unwrap();
    let failing = Fault::new("/readyz", Action::Respond { status: 500, headers: Vec::new(), body: String::new() });
    fixture.stub.fault(failing);
    site.plane().wait_status("the endpoint has failed", SOON * 2, seen(0)).unwrap();
    fixture.stub.clear_faults();
    site.plane().wait_status("the endpoint has recovered", SOON * 2, seen(1)).unwrap();
}

#[test]
fn control_plane_on_another_machine_hears_of_them_by_name() {
    let fixture = AgentFixture::new("agent-network");
    let ca = Ca::new("control planes and gateways").unwrap();
    let plane = ca.issue(&CertSpec::server("plane", ["plane.test"])).unwrap();
    let gateway = ca.issue(&CertSpec::client("envoy-0", [""; 0])).unwrap();
    let file = |name: &str, text: String| fixture.run.write(name, text).unwrap();
    let ca = file("ca.pem", ca.pem());
    let xds = ports::free_address().unwrap();
    let (cert, key) = (file("plane.pem", plane.pem()), file("plane.key", plane.key_pem()));
    let site = fixture.site("envoy-0").plane_flags(xds_server_flags(xds, [&cert, &key, &ca]));
    let (cert, key) = (file("gateway.pem", gateway.pem()), file("gateway.key", gateway.key_pem()));
    let site = site.agent(|options| options.flags = xds_client_flags(xds, [&cert, &key, &ca], "plane.test"));
    site.start().unwrap().plane().wait_status("the endpoint is healthy", SOON, seen(1)).unwrap();
}

//! The agent of an instance's Envoy.

use portcullis_e2e::{xds_client_flags, xds_server_flags};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::ports;
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::NAME;

#[test]
fn control_plane_hears_how_an_instances_endpoints_are() {
    let fixture = AgentFixture::new("agent-instance");
    let ca = Ca::new("control planes and gateways").unwrap();
    let plane = ca.issue(&CertSpec::server("plane", ["plane.test"])).unwrap();
    let dns = vec!["a.instance.portcullis.dev".to_owned()];
    let gateway = ca.issue(&CertSpec { dns, ..CertSpec::client("envoy-0", [""; 0]) }).unwrap();
    let file = |name: &str, text: String| fixture.run.write(name, text).unwrap();
    let ca = file("ca.pem", ca.pem());
    let xds = ports::free_address().unwrap();
    let (cert, key) = (file("plane.pem", plane.pem()), file("plane.key", plane.key_pem()));
    let manifest = fixture.manifest().set("/metadata/labels", json!({"team": "a"}));
    let site = fixture.site_of("envoy-0", &manifest).instance("a", &json!({"matchLabels": {"team": "a"}}));
    let site = site.plane_flags(xds_server_flags(xds, [&cert, &key, &ca]));
    let (cert, key) = (file("gateway.pem", gateway.pem()), file("gateway.key", gateway.key_pem()));
    let mut flags = xds_client_flags(xds, [&cert, &key, &ca], "plane.test");
    flags.extend(["--instance", "a"].map(str::to_owned));
    let site = site.agent(|options| options.flags = flags).start().unwrap();
    let is_ready = |status: &Value| {
        let objects = status["objects"].as_array().into_iter().flatten();
        let conditions = objects.filter(|one| one["name"] == NAME).flat_map(|one| one["conditions"].as_array());
        let ready = conditions.flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
        ready && status["endpoints"][format!("e2e/-/{NAME}/all.h2")]["a/envoy-0"]["total"] == 1
    };
    site.plane().wait_status("its cluster is ready", SOON, is_ready).unwrap();
}

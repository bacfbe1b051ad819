//! The filter in a gateway of Istio's reports its activity to a control plane, by the objects of `activity.yaml`.

use std::time::Duration;

use portcullis_e2e::ReportConsole;
use portcullis_harness::certs::Identity;
use portcullis_harness::client::H2Client;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{project_root, wait};
use serde_json::json;

use super::effect::nothing_was_refused;
use super::fixture::{Build, MeshFixture, NAME, Setup, object, rendered};

const SOON: Duration = Duration::from_secs(40);
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIG: &str = r#""peerSource": "ForwardedClientCert"}"#;
const ACTIVITY: &str = r#""peerSource": "ForwardedClientCert", "activity":
    {"clusters": ["outbound|18000||control-plane-0.portcullis.internal"], "node": "*.istio-ingress.example.com"}}"#;

#[test]
fn gateway_of_istios_is_on_the_console() {
    let (test, setup) = ("istio-activity", Setup::new(Build::Module));
    let run = RunDir::new(&format!("{test}-console")).unwrap();
    let console = ReportConsole::start(&run, &object(NAME)).unwrap();
    let identity = console.identity("*.istio-ingress.example.com").unwrap();
    let fixture = MeshFixture::with(test, &setup, |servers, pki| {
        let objects = rendered(&setup, servers, pki);
        assert!(objects.contains(CONFIG));
        format!("{}\n---\n{}", objects.replace(CONFIG, &ACTIVITY.replace('\n', "")), activity(&console, &identity))
    });
    let Some(fixture) = fixture else { return };
    nothing_was_refused(&fixture.mesh);
    let alice = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let node = format!("{}.istio-ingress.example.com", host.trim().split('.').next().unwrap());
    wait::until_ok("the console has rates of the gateway", SOON, || {
        assert_eq!(alice.get(CONFIGMAPS, &[]).unwrap().status, 200);
        console.shows_rates_of(&node)
    })
    .unwrap();
}

/// The objects of `activity.yaml` with the console's address, and the Secret.
pub(super) fn activity(console: &ReportConsole, identity: &Identity) -> String {
    let sample = std::fs::read_to_string(project_root().join("envoy/istio/activity.yaml")).unwrap();
    let endpoint = format!("{{address: {}, ports: {{grpc: {}}}}}", console.xds().ip(), console.xds().port());
    let sample = sample.replace("{address: 192.0.2.9, ports: {grpc: 18000}}", &endpoint);
    let metadata = json!({"name": "portcullis-activity", "namespace": "istio-ingress"});
    let data = json!({"tls.crt": identity.pem(), "tls.key": identity.key_pem(), "ca.crt": console.server_ca.pem()});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data});
    format!("{sample}\n---\n{secret}")
}

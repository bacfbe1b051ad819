use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use portcullis_e2e::allow_all;
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::{condition, wait_condition};
use crate::sources::{SOON, SourceFixture};

const NAME: &str = "prod.example.com";
/// In which an agent reports twice.
const REPORTS: Duration = Duration::from_secs(12);

/// Accepts connections and never says anything, until the test ends.
fn black_hole() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    address
}

#[test]
fn unhealthy_server_is_named_by_kubectl() {
    let Some(fixture) = SourceFixture::start("status-unhealthy") else { return };
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let plane = ControlPlane::start_from(&fixture.run.make_dir("plane").unwrap(), &flags).unwrap();
    let agent = Agent::start(fixture.run.path(), "envoy-0", &AgentOptions::new([plane.xds_socket()])).unwrap();
    fixture.apply(&fixture.manifest(NAME).to_text());
    agent.wait_ready(SOON).unwrap();
    wait_condition(&fixture, NAME, "Ready", "True", "EndpointsHealthy");

    let hole = black_hole();
    let good = fixture.kube.apiservers()[0].address();
    let servers = [good, hole].map(|address| json!({"endpoint": format!("https://{address}")}));
    let subset = json!({"rules": [allow_all()], "upstreamSubset": [format!("https://{hole}")]});
    let check = json!({"healthCheck": {"interval": "1s", "timeout": "3s", "unhealthyThreshold": 1}});
    let manifest = fixture.manifest(NAME).set("/spec/servers", json!(servers)).policies(json!([subset]));
    fixture.apply(&manifest.set("/spec/portcullis", check).to_text());
    let object = wait_condition(&fixture, NAME, "Ready", "False", "SubsetUnhealthy");
    let named = |object: &Value| object["status"]["gateways"][0]["unhealthy"][0].clone();
    assert_eq!(named(&object)["server"], hole.to_string(), "{:#}", object["status"]);
    let message = condition(&object, "Ready")["message"].to_string();
    assert!(message.contains(&hole.to_string()), "{message}");

    let since = named(&object)["since"].as_str().unwrap().to_owned();
    for args in [["get", "-oyaml"], ["get", "-owide"], ["describe", "--show-events=false"]] {
        let printed = fixture.admin(&[args[0], "upstreamcluster", NAME, args[1]]);
        assert!(printed.contains(&hole.to_string()) && printed.contains(&since), "{args:?}: {printed}");
    }
    settled(&fixture);

    fixture.apply(&fixture.manifest(NAME).to_text());
    let object = wait_condition(&fixture, NAME, "Ready", "True", "EndpointsHealthy");
    assert!(object["status"]["gateways"][0].get("unhealthy").is_none(), "{:#}", object["status"]);
}

/// Nothing is written while nothing changes: the version stays over several reports.
fn settled(fixture: &SourceFixture) {
    let version = || fixture.stored(NAME)["metadata"]["resourceVersion"].clone();
    let mut last = (version(), Instant::now());
    let stays = || {
        let newest = version();
        if newest != last.0 {
            last = (newest, Instant::now());
        }
        (last.1.elapsed() > REPORTS).then_some(())
    };
    wait::until("the status stays as it is", SOON * 3, stays).unwrap();
}

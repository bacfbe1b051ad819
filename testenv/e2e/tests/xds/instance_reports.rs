//! Reports of an instance's agent to a control plane.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use portcullis_e2e::{Manifest, xds_server_flags};
use portcullis_filter_config::limits::PartUse;
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::ports;
use portcullis_harness::rundir::RunDir;
use portcullis_report::limits::{PartsMessage, encode_use};
use portcullis_xds::ReportClient;
use serde_json::{Value, json};

use crate::site::{Caller, SOON};

/// Requests in flight of all gateways.
const MAX: u32 = 10;

/// A cluster of a team with a limit of all gateways.
fn cluster(name: &str, team: &str, server: SocketAddr, ca: &Ca) -> Value {
    let serving = ca.issue(&CertSpec::server(name, [name])).unwrap();
    let client = ca.issue(&CertSpec::client("system:gateway", ["x"])).unwrap();
    let schema = json!({"name": "few", "strategy": "globalAllocate", "maxRequestsInflight": {"max": 1},
        "globalMaxRequestsInflight": {"max": MAX}});
    let manifest = Manifest::new(name, [server]).upstream(&client, ca, "kubernetes").serving(&serving, ca);
    let manifest = manifest.set("/metadata/labels", json!({"team": team}));
    let text = manifest.set("/spec/flowControl", json!({"flowControlSchemas": [schema]})).to_text();
    serde_json::from_str(&text).unwrap()
}

fn objects(ca: &Ca) -> Vec<Value> {
    let address = ports::free_address().unwrap();
    let listener = json!({"address": address.ip().to_string(), "port": address.port()});
    let spec = json!({"instance": "e2e", "listener": listener, "allowLoopbackUpstreams": true});
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let instance = |name: &str| object("Instance", name, json!({"clustersSelector": {"matchLabels": {"team": name}}}));
    let server = ports::free_address().unwrap();
    vec![
        object("GatewaySettings", "e2e", spec),
        instance("a"),
        instance("b"),
        cluster("one.a.test", "a", server, ca),
        cluster("one.b.test", "b", server, ca),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_of_an_instance_has_no_part_of_anothers_cluster() {
    let run = RunDir::new("instance-reports").unwrap();
    let (server_ca, client_ca) = (Ca::new("xds servers").unwrap(), Ca::new("xds clients").unwrap());
    let manifests = run.make_dir("manifests").unwrap();
    for (number, object) in objects(&Ca::new("all of them").unwrap()).iter().enumerate() {
        run.write(&format!("manifests/{number}.yaml"), object.to_string()).unwrap();
    }
    let file = |name: &str| run.path().join(name);
    let server = server_ca.issue(&CertSpec::server("xds", ["xds.internal"])).unwrap();
    server.write_pem(&file("server.pem"), &file("server.key")).unwrap();
    client_ca.write_pem(&file("clients.pem")).unwrap();
    let address = ports::free_address().unwrap();
    let flags = xds_server_flags(address, [&file("server.pem"), &file("server.key"), &file("clients.pem")]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let plane = ControlPlane::start_with(run.path(), &manifests, &flags).unwrap();
    plane
        .wait_status("both clusters are served", SOON, |status| {
            status["objects"].as_array().is_some_and(|all| all.len() == 5)
        })
        .unwrap();
    for (instance, expected) in [("a", [Some(MAX), None]), ("b", [None, Some(MAX)])] {
        let dns = vec![format!("{instance}.instance.portcullis.dev")];
        let node = format!("envoy-of-{instance}");
        let identity = client_ca.issue(&CertSpec { dns, ..CertSpec::client(&node, [""; 0]) }).unwrap();
        let channel = Caller::new(address, &server_ca, &identity).channel().await.unwrap();
        let mut reports = ReportClient::new(channel).open(&node, None).await.unwrap();
        let (mut number, mut parts): (u64, Vec<Option<u32>>) = (0, Vec::new());
        let all = async {
            // A limiter knows nothing at first, and has to learn.
            while parts != expected {
                number += 1;
                let held = parts.iter().flatten().next().copied().unwrap_or_default();
                let used = PartUse { held, wanted: MAX, ..PartUse::default() };
                let clusters = ["one.a.test", "one.b.test"].map(|cluster| (cluster, "few", used));
                let answer = reports.divide(Bytes::from(encode_use(1, number, clusters))).await.unwrap();
                parts = match answer.is_empty() {
                    true => Vec::new(),
                    false => PartsMessage::read(&answer).unwrap().parts().map(|one| one.map(|one| one.quota)).collect(),
                };
                let foreign = expected.iter().zip(&parts).find(|(own, part)| own.is_none() && part.is_some());
                assert!(foreign.is_none(), "{instance}: {parts:?}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(tokio::time::timeout(SOON, all).await.is_ok(), "{instance}");
    }
}

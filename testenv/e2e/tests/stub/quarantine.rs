//! Resources that Envoy refuses are found, reported and left out; all others go on.

use portcullis_api::status::GatewayProgress;
use portcullis_e2e::Manifest;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::StubServer;
use serde_json::json;

use crate::bad_control_plane::BadControlPlane;
use crate::fixture::{PODS, Pki};

struct Fixture {
    control_plane: BadControlPlane,
    stub: StubServer,
    pki: Pki,
    _run: RunDir,
}

impl Fixture {
    fn start(test: &str) -> Self {
        Self::start_with(test, |_| {})
    }

    fn start_with(test: &str, change: impl Fn(&mut serde_json::Value)) -> Self {
        let run = RunDir::new(test).unwrap();
        let pki = Pki::new();
        let stub = pki.stub("stub-0");
        Fixture { control_plane: BadControlPlane::start_with(&run, change), stub, pki, _run: run }
    }

    fn manifest(&self, name: &str) -> Manifest {
        Manifest::new(name, [self.stub.address()])
            .upstream(&self.pki.gateway, &self.pki.server_ca, "kubernetes")
            .serving(&self.control_plane.serving_identity(name), &self.pki.client_ca)
    }

    /// The status of an answer, or nothing if there is none.
    fn ask(&self, name: &str) -> Option<u16> {
        let target = TlsTarget::new(self.control_plane.address).sni(name).trust(&self.control_plane.serving_ca);
        let request = format!("GET {PODS} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        Some(target.identity(&self.pki.alice).raw_request(request.as_bytes()).ok()?.status)
    }
}

#[test]
fn chain_that_envoy_refuses_is_left_out_and_told() {
    let fixture = Fixture::start("bad-chain");
    let (control_plane, names) =
        (&fixture.control_plane, ["a.example.com", "b.example.com", "c.example.com", "d.example.com"]);
    let mut manifests: Vec<_> = names.iter().map(|name| fixture.manifest(name)).collect();
    // Without service of its own, a name must not fall to a wildcard.
    manifests.push(fixture.manifest("w.example.org").set("/spec/secureServing/serverNames", json!(["*.example.com"])));
    let snapshot = control_plane.publish(&manifests, &["b.example.com"]);
    let found = |node: &portcullis_xds::NodeStatus| node.refused.iter().any(|one| one.owner.is_some());
    let node = control_plane.wait("the bad chain is found", found);
    assert_eq!(node.refused.len(), 1, "{node:#?}");
    assert_eq!(node.refused[0].owner.as_deref(), Some("b.example.com"));
    assert!(node.refused[0].message.contains("Nonsense"), "{node:#?}");
    control_plane.envoy.wait_listening(control_plane.address, std::time::Duration::from_secs(20)).unwrap();
    let served = |name: &str| {
        let soon = std::time::Duration::from_secs(20);
        let answered = || (fixture.ask(name) == Some(200)).then_some(());
        portcullis_harness::wait::until(&format!("{name} is served"), soon, answered).unwrap();
    };
    names.into_iter().filter(|name| *name != "b.example.com").for_each(served);
    assert_eq!(fixture.ask("b.example.com"), None, "it meets neither the wildcard nor anybody else");
    let progress = |owner: &str| control_plane.registry.streams().progress(&snapshot, owner).remove("envoy-0").unwrap();
    assert!(matches!(progress("b.example.com"), GatewayProgress::Refused { .. }));
    assert_eq!(progress("a.example.com"), GatewayProgress::Acknowledged);

    // The others go on changing, and it is fixed.
    control_plane.publish(&manifests[..3], &["b.example.com"]);
    control_plane.wait("the others go on", |node| found(node) && fixture.ask("d.example.com") != Some(200));
    control_plane.publish(&manifests, &[]);
    control_plane.wait("all is well", |node| node.in_sync && node.refused.is_empty());
    served("b.example.com");

    // An edit that is refused leaves what was served.
    let edited =
        |manifest: &Manifest| manifest.clone().set("/spec/secureServing/serverNames", json!(["other.example.net"]));
    manifests[1] = edited(&manifests[1]);
    control_plane.publish(&manifests, &["b.example.com"]);
    control_plane.wait("the edit is refused", found);
    assert_eq!(fixture.ask("b.example.com"), Some(200));
    assert_eq!(fixture.ask("a.example.com"), Some(200));
    let updates = "listener_manager.lds.update_rejected";
    let rejected = || control_plane.envoy.admin().stat(updates).unwrap();
    let before = rejected();
    manifests[0] = edited(&manifests[0]).set("/spec/secureServing/serverNames", json!(["more.example.net"]));
    let newest = control_plane.publish(&manifests, &["b.example.com"]);
    let taken = |_: &_| {
        control_plane.registry.streams().progress(&newest, "a.example.com").get("envoy-0")
            == Some(&GatewayProgress::Acknowledged)
    };
    control_plane.wait("the others go on", taken);
    assert_eq!(rejected(), before, "what was refused is not sent again");
    assert_eq!(fixture.ask("b.example.com"), Some(200));
}

#[test]
fn tunnels_chain_that_envoy_refuses_is_left_out_alone() {
    let mut fixture = Fixture::start("bad-tunnel");
    let door = fixture.control_plane.open_tunnels();
    let manifests = ["a.example.com", "b.example.com"].map(|name| fixture.manifest(name));
    fixture.control_plane.publish(&manifests, &["b.example.com"]);
    let both = |node: &portcullis_xds::NodeStatus| {
        node.refused.len() == 2 && node.refused.iter().all(|one| one.owner.as_deref() == Some("b.example.com"))
    };
    fixture.control_plane.wait("the bad chain is found in both listeners", both);
    let ask = |name: &str| {
        let connect =
            format!("CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\nX-Gardener-Destination: {name}\r\n\r\n");
        let target = TlsTarget::new(door).sni(name).trust(&fixture.control_plane.serving_ca).tunnel(connect.as_bytes());
        let request = format!("GET {PODS} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        Some(target.identity(&fixture.pki.alice).raw_request(request.as_bytes()).ok()?.status)
    };
    let soon = std::time::Duration::from_secs(20);
    let served = |name: &str| {
        portcullis_harness::wait::until("the tunnel leads there", soon, || (ask(name) == Some(200)).then_some(()))
            .unwrap();
    };
    served("a.example.com");
    assert_eq!(ask("b.example.com"), None);
    fixture.control_plane.publish(&manifests, &[]);
    fixture.control_plane.wait("all is well", |node| node.in_sync && node.refused.is_empty());
    served("b.example.com");
}

#[test]
fn envoy_of_an_earlier_bootstrap_serves_all_but_tunnels() {
    let drop_extensions = |bootstrap: &mut serde_json::Value| {
        bootstrap.as_object_mut().unwrap().remove("bootstrap_extensions").expect("that of listeners inside Envoy");
    };
    let mut fixture = Fixture::start_with("old-bootstrap", drop_extensions);
    fixture.control_plane.open_tunnels();
    let (one, other) = (fixture.manifest("a.example.com"), fixture.manifest("b.example.com"));
    let control_plane = &fixture.control_plane;
    let snapshot = control_plane.publish(&[one.clone(), other.clone()], &[]);
    let served_by = |snapshot: &portcullis_xds::Snapshot, owner: &str| {
        control_plane.registry.streams().progress(snapshot, owner).get("envoy-0")
            == Some(&GatewayProgress::Acknowledged)
    };
    let node = control_plane.wait("all but tunnels are served", |node| {
        !node.refused.is_empty() && ["a.example.com", "b.example.com"].iter().all(|owner| served_by(&snapshot, owner))
    });
    let refused: Vec<_> = node.refused.iter().map(|one| (one.name.as_str(), one.is_optional)).collect();
    assert_eq!(refused, [("-/-/-/tunnelled-listener", true)], "{node:#?}");
    let soon = std::time::Duration::from_secs(20);
    let answered = || (fixture.ask("a.example.com") == Some(200)).then_some(());
    portcullis_harness::wait::until("it is served", soon, answered).unwrap();

    // An edit comes into use, and what is removed leaves Envoy.
    let edited = one
        .set("/spec/portcullis", json!({"upstreamIdentity": "RequestHeader", "requestHeader": {"tokenReview": true}}));
    let clusters = || control_plane.envoy.admin().get("/clusters").unwrap().text();
    assert!(clusters().contains("b.example.com/"));
    let snapshot = control_plane.publish(&[edited], &[]);
    control_plane.wait("the edit is served", |_| served_by(&snapshot, "a.example.com"));
    let is_gone = || (!clusters().contains("b.example.com/")).then_some(());
    portcullis_harness::wait::until("the removed object leaves Envoy", soon, is_gone).unwrap();
}

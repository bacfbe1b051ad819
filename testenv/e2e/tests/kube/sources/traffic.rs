//! The Kubernetes API that objects come from goes away, and who leads ends: requests and watches go on.

use std::time::{Duration, Instant};

use portcullis_e2e::Manifest;
use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Outcome, Protocol, TlsTarget, Watches};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::process::Signal;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::{SOON, object};
use super::fixture::{SourceFixture, printed};

const NAME: &str = "a.example.com";
const WATCHED: &str = "/api/v1/namespaces/default/configmaps?watch=true";
/// Longer than a Lease.
const EXPIRY: Duration = Duration::from_secs(40);

/// The second kube-apiserver is behind the gateway, the first one stores the objects.
struct TrafficFixture {
    replicas: Vec<ControlPlane>,
    load: OpenLoopLoad,
    watches: Watches,
    envoy: Envoy,
    fixture: SourceFixture,
}

impl TrafficFixture {
    fn start(test: &str, replicas: usize) -> Option<Self> {
        let fixture = SourceFixture::of(test, &KubeOptions { apiservers: 2, ..KubeOptions::default() })?;
        fixture.apply(&printed(&["rbac", "--user", "portcullis"]));
        fixture.apply(&manifest(&fixture).to_text());
        let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let dir = |name: String| fixture.run.make_dir(&name).unwrap();
        let replica = |number| ControlPlane::start_from(&dir(format!("plane-{number}")), &flags).unwrap();
        let replicas: Vec<_> = (0..replicas).map(replica).collect();
        let served = |status: &Value| object(status, NAME).is_some_and(|told| told["accepted"] == true);
        for replica in &replicas {
            replica.wait_status("the object is served", SOON, served).unwrap();
        }
        let more: Vec<_> =
            replicas[1..].iter().flat_map(|one| ["--xds-socket", one.xds_socket().to_str().unwrap()]).collect();
        let bootstrap = replicas[0].bootstrap_with("envoy", &more).unwrap();
        let envoy = Envoy::start(&dir("envoy".to_owned()), "envoy", &EnvoyOptions::new(bootstrap)).unwrap();
        envoy.wait_listening(fixture.address, SOON).unwrap();
        let target = TlsTarget::new(fixture.address).sni(NAME).trust(&fixture.serving_ca).timeout(EXPIRY);
        let target = target.identity(fixture.kube.admin());
        let answers =
            || portcullis_harness::client::H2Client::connect(&target)?.get("/version", &[]).map(|one| one.status);
        wait::until("the gateway serves", SOON, || answers().is_ok_and(|status| status == 200).then_some(())).unwrap();
        let crowd = ClientPool::new(2).unwrap();
        let lanes = [Protocol::Http2, Protocol::Http1].map(|one| LoadProfile::new(format!("{one:?}"), &target, one));
        let watches = crowd.watches(&lanes.clone().map(|lane| (lane, 20)), WATCHED).unwrap();
        let paths = ["/api/v1/namespaces/default/configmaps", "/version", "/api/v1/nodes"];
        let load = crowd.steady(&lanes, &paths, 20.0).unwrap();
        Some(TrafficFixture { replicas, load, watches, envoy, fixture })
    }

    fn nothing_happened(self) {
        let outcome: Outcome = self.load.stop().unwrap();
        eprintln!("{outcome}");
        assert!(outcome.good() > 100, "{outcome}");
        assert_eq!((outcome.failed, self.watches.ended().len()), (0, 0), "{outcome}\n{:#?}", self.watches.ended());
        for what in ["cluster_manager.cluster_removed", "listener_manager.listener_removed"] {
            assert_eq!(self.envoy.admin().stat(what).unwrap(), 0, "{what}");
        }
    }
}

fn manifest(fixture: &SourceFixture) -> Manifest {
    let server = json!([{"endpoint": format!("https://{}", fixture.kube.address(1).unwrap())}]);
    fixture.manifest(NAME).set("/spec/servers", server)
}

fn is_current(replica: &ControlPlane, expected: bool) {
    let holds = |status: &Value| status["source"]["staleSince"].is_null() == expected;
    replica.wait_status("the source's state", SOON, holds).unwrap();
}

#[test]
#[ignore = "the API hangs for more than a minute"]
fn api_outage_of_a_minute_fails_no_request_and_ends_no_watch() {
    let Some(mut fixture) = TrafficFixture::start("traffic-outage", 1) else { return };
    let started = Instant::now();
    fixture.fixture.kube.apiserver(0).unwrap().process().signal(Signal::Stop).unwrap();
    is_current(&fixture.replicas[0], false);
    let lasted = || (started.elapsed() > Duration::from_secs(60)).then_some(());
    wait::until("the outage has lasted", Duration::from_secs(80), lasted).unwrap();
    let source = fixture.fixture.kube.apiserver(0).unwrap().process();
    source.signal(Signal::Cont).unwrap();
    is_current(&fixture.replicas[0], true);
    source.kill();
    is_current(&fixture.replicas[0], false);
    fixture.fixture.kube.restart(0).unwrap();
    is_current(&fixture.replicas[0], true);
    fixture.nothing_happened();
}

#[test]
#[ignore = "a Lease runs out, twice"]
fn end_of_the_leader_fails_no_request_and_ends_no_watch() {
    let Some(mut fixture) = TrafficFixture::start("traffic-leader", 2) else { return };
    let leads = |replica: &ControlPlane| replica.status().is_ok_and(|status| status["source"]["leader"] == true);
    for _ in 0..2 {
        let leader = || fixture.replicas.iter().position(leads);
        let leader = wait::until("one leads", EXPIRY, leader).unwrap();
        fixture.replicas[leader].process().kill();
        let other = 1 - leader;
        wait::until("the other leads", EXPIRY, || leads(&fixture.replicas[other]).then_some(())).unwrap();
        fixture.replicas[leader].restart().unwrap();
        is_current(&fixture.replicas[leader], true);
    }
    fixture.nothing_happened();
}

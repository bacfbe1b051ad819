//! The filter in a gateway of Istio's has its part of a limit of all gateways, by the objects of `activity.yaml`.

use std::time::{Duration, Instant};

use portcullis_e2e::ReportConsole;
use portcullis_harness::client::H2Client;
use portcullis_harness::process::Signal;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::activity::activity;
use super::effect::nothing_was_refused;
use super::fixture::{Build, MeshFixture, NAME, Setup, object, rendered};

const SOON: Duration = Duration::from_secs(40);
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Of one gateway alone, and of all: requests per second, and at once.
const LOCAL: u32 = 1;
const GLOBAL: u32 = 20;
/// The time over which requests are counted.
const SPAN: Duration = Duration::from_secs(3);
/// The filter's configuration for a listener, in `module.yaml` and in `wasm.yaml`.
const CONFIGS: [(&str, &str); 2] = [
    (r#""peerSource": "ForwardedClientCert"}"#, r#""peerSource": "ForwardedClientCert", "globalLimits": "#),
    ("peerSource: ForwardedClientCert}", "peerSource: ForwardedClientCert, globalLimits: "),
];

#[test]
fn gateway_of_istios_has_its_part_of_a_limit() {
    has_its_part(Build::Module);
}

#[test]
fn gateway_of_istios_has_its_part_of_a_limit_with_wasm() {
    has_its_part(Build::Wasm);
}

fn bucket(rate: u32) -> Value {
    json!({"qps": rate, "burst": rate})
}

fn has_its_part(build: Build) {
    let (test, setup) = (format!("istio-limits-{build:?}").to_lowercase(), Setup::new(build));
    let run = RunDir::new(&format!("{test}-console")).unwrap();
    let schema = json!({"name": "shared", "strategy": "globalAllocate", "tokenBucket": bucket(LOCAL),
        "globalTokenBucket": bucket(GLOBAL)});
    let schemas = json!({"flowControlSchemas": [schema]});
    let change = |manifest: portcullis_e2e::Manifest| manifest.set("/spec/flowControl", schemas);
    let mut console = ReportConsole::start_with(&run, &object(NAME), change).unwrap();
    let identity = console.identity("*.istio-ingress.example.com").unwrap();
    let fixture = MeshFixture::with(&test, &setup, |servers, pki| {
        let objects = limited(&rendered(&setup, servers, pki));
        format!("{objects}\n---\n{}", activity(&console, &identity))
    });
    let Some(fixture) = fixture else { return };
    nothing_was_refused(&fixture.mesh);
    let alice = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
    // The bucket keeps what it has when its rate changes.
    until_passed(&alice, "the gateway has all of the limit", GLOBAL * 2..GLOBAL * 4 + 2);
    assert_eq!(console.rejections(&[]).unwrap(), 0);
    // Without requests in the last seconds that were reported nothing else was in use.
    let pass = |what: &str, seconds| {
        let since = Instant::now();
        wait::until(what, SOON, || (since.elapsed() > Duration::from_secs(seconds)).then_some(())).unwrap();
    };
    pass("the gateway has reported that nothing is in use", 4);
    console.plane.process().signal(Signal::Kill).unwrap();
    console.plane.process().wait_exit(SOON).unwrap();
    pass("the lease has ended", 5);
    until_passed(&alice, "the local limit holds", 1..LOCAL * 4 + 2);
    console.plane.restart().unwrap();
    until_passed(&alice, "the gateway has all of the limit again", GLOBAL * 2..GLOBAL * 4 + 2);
}

/// Asks until as many requests as said go through in [`SPAN`].
fn until_passed(client: &H2Client, what: &str, expected: std::ops::Range<u32>) {
    wait::until_ok(what, SOON, || {
        let start = Instant::now();
        let mut passed = 0;
        while start.elapsed() < SPAN {
            match client.get(CONFIGMAPS, &[]).unwrap().status {
                200 => passed += 1,
                429 => std::thread::park_timeout(Duration::from_millis(10)),
                status => return Err(format!("status {status}")),
            }
        }
        eprintln!("{what}: {passed} requests in {SPAN:?}");
        if expected.contains(&passed) { Ok(()) } else { Err(format!("{passed} requests went through")) }
    })
    .unwrap();
}

/// The objects with a limit that the gateway shares.
fn limited(objects: &str) -> String {
    let (config, shared) = CONFIGS.into_iter().find(|(config, _)| objects.contains(config)).unwrap();
    let clusters = ["outbound|18000||control-plane-0.portcullis.internal"];
    let limits = json!({"clusters": clusters, "node": "*.istio-ingress.example.com"});
    let tokens = |rate: u32| json!({"tokenBucket": bucket(rate)});
    let schema = json!({"name": "shared", "limit": tokens(LOCAL),
        "global": {"limit": tokens(GLOBAL), "strategy": "Allocate"}});
    let policies = r#""policies": [{"group": "all", "#;
    assert!(objects.contains(policies));
    let named = format!(r#""flowControlSchemas": [{schema}], {policies}"flowControlSchema": "shared", "#);
    objects.replace(config, &format!("{shared}{limits}}}")).replace(policies, &named)
}

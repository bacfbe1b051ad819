//! The Gateway API project's own conformance suite, against a real kube-apiserver and the control plane.

mod backends;
mod envoys;
mod page;
mod profile;
mod suite;

use portcullis_harness::conformance::ConformanceSuite;
use portcullis_harness::write_private;
use serde_json::{Value, json};

use crate::sources::GatewayApiSite;
use suite::SuiteRun;

/// The namespaces in which the suite's Gateways have certificates.
const SECRET_NAMESPACES: [&str; 2] = ["gateway-conformance-infra", "gateway-conformance-web-backend"];

fn run(name: &str, test: Option<&str>) -> Option<SuiteRun> {
    let suite = ConformanceSuite::or_skip(name).unwrap()?;
    if !envoys::may_make_pods() {
        let reason = "its Gateways need network namespaces: run it as root, with iproute2";
        assert!(std::env::var_os("PORTCULLIS_CONFORMANCE").is_none(), "{reason}");
        eprintln!("SKIPPED {name}: {reason}");
        return None;
    }
    let site = GatewayApiSite::start_with(name, &SECRET_NAMESPACES)?;
    listen_everywhere(&site);
    suite::run(&site, &suite, test)
}

/// Each Envoy has a network of its own.
fn listen_everywhere(site: &GatewayApiSite) {
    let text = std::fs::read_to_string(&site.fixture.settings).unwrap();
    let mut settings: Value = serde_json::from_str(&text).unwrap();
    settings["spec"]["listener"]["address"] = json!("0.0.0.0");
    write_private(&site.fixture.settings, settings.to_string().as_bytes()).unwrap();
}

/// The smallest of its tests.
#[test]
fn suite_finds_statuses_of_a_class() {
    let test = "GatewayClassObservedGenerationBump";
    let Some(run) = run("conformance-class", Some(test)) else { return };
    assert_eq!(run.passed.get(test), Some(&true), "{}", run.log);
}

//! The Gateway API project's own conformance suite, against a real kube-apiserver and the control plane.

mod admission;
mod backends;
mod page;
mod profile;
mod suite;

use portcullis_harness::conformance::ConformanceSuite;

use crate::sources::GatewayApiSite;
use suite::SuiteRun;

fn run(name: &str, test: Option<&str>) -> Option<SuiteRun> {
    let suite = ConformanceSuite::or_skip(name).unwrap()?;
    let site = GatewayApiSite::start(name)?;
    admission::wait_for_no_gateway(&site);
    suite::run(&site, &suite, test)
}

/// The smallest of its tests.
#[test]
fn suite_finds_statuses_of_a_class() {
    let test = "GatewayClassObservedGenerationBump";
    let Some(run) = run("conformance-class", Some(test)) else { return };
    assert_eq!(run.passed.get(test), Some(&true), "{}", run.log);
}

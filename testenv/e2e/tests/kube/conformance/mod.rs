//! The Gateway API project's own conformance suite, against a real kube-apiserver and the control plane.

mod admission;
mod backends;
mod page;
mod suite;

use std::collections::BTreeSet;

use portcullis_harness::conformance::ConformanceSuite;

use crate::sources::GatewayApiSite;
use suite::{CoveredProfile, SuiteRun};

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

#[test]
fn profile_has_the_outcome_that_is_written() {
    let Some(run) = run("conformance-profile", None) else { return };
    let failed: BTreeSet<&String> = run.passed.iter().filter(|(_, passed)| !**passed).map(|(name, _)| name).collect();
    eprintln!("{} passed, failed: {failed:?}", run.passed.len() - failed.len());
    let profile = CoveredProfile::read();
    page::check(&run, &profile);
    assert_eq!(failed, profile.failing_tests.keys().collect(), "{}", run.log);
}

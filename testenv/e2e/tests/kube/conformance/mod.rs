//! The Gateway API project's own conformance suite, against a real kube-apiserver and the control plane.

mod admission;
mod backends;
mod suite;

use std::collections::BTreeSet;

use portcullis_harness::conformance::ConformanceSuite;
use portcullis_harness::project_root;

use crate::sources::GatewayApiSite;
use suite::{CoveredProfile, SuiteRun};

const REPORT: &str = "docs/reference/gateway-api-conformance.yaml";

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
    let report = std::fs::read_to_string(&run.report).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(project_root().join(REPORT), &report).unwrap();
    }
    let expected = CoveredProfile::read().failing_tests;
    assert_eq!(failed, expected.keys().collect(), "{}", run.log);
    let without_date = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("date: ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let written = std::fs::read_to_string(project_root().join(REPORT)).unwrap_or_default();
    assert_eq!(without_date(&report), without_date(&written), "UPDATE_DOCS=1 make test-conformance");
}

//! The outcome of a run in docs/: the suite's own report, and a table with reasons.

use std::fmt::Write as _;

use portcullis_harness::project_root;

use super::suite::{CoveredProfile, SuiteRun};

const PAGE: &str = "docs/gateway-api.md";
const REPORT: &str = "docs/reference/gateway-api-conformance.yaml";
const BEGIN: &str = "<!-- begin conformance -->\n";
const END: &str = "<!-- end conformance -->";

/// Compares a run with both, or writes them.
pub(super) fn check(run: &SuiteRun, profile: &CoveredProfile) {
    let page = read(PAGE);
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (written, tail) = rest.split_once(END).unwrap();
    let table = table(run, profile);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(project_root().join(REPORT), &run.report).unwrap();
        std::fs::write(project_root().join(PAGE), format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
        return;
    }
    assert_eq!(written, table, "UPDATE_DOCS=1 make test-conformance");
    let without_date = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("date: ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    assert_eq!(without_date(&run.report), without_date(&read(REPORT)), "UPDATE_DOCS=1 make test-conformance");
}

fn table(run: &SuiteRun, profile: &CoveredProfile) -> String {
    let failing = |test: &str| profile.failing_tests.get(test).map_or("not known", String::as_str);
    let mut table = String::from("| test | outcome |\n|---|---|\n");
    for (test, passed) in &run.passed {
        let outcome = if *passed { "passed".to_owned() } else { format!("failed: {}", failing(test)) };
        writeln!(table, "| {test} | {outcome} |").unwrap();
    }
    for (test, reason) in &profile.skipped_tests {
        writeln!(table, "| {test} | left out: {reason} |").unwrap();
    }
    table += "\n| extended feature of the profile | not covered, because |\n|---|---|\n";
    for (feature, reason) in &profile.unsupported_features {
        writeln!(table, "| {feature} | {reason} |").unwrap();
    }
    table
}

fn read(path: &str) -> String {
    std::fs::read_to_string(project_root().join(path)).unwrap()
}

#[test]
fn reasons_of_the_profile_are_on_the_page() {
    let (profile, page) = (CoveredProfile::read(), read(PAGE));
    for (of, reason) in profile.failing_tests.iter().chain(&profile.skipped_tests).chain(&profile.unsupported_features)
    {
        let is_there = page.lines().any(|line| line.starts_with(&format!("| {of} |")) && line.contains(reason));
        assert!(is_there, "{of}: UPDATE_DOCS=1 make test-conformance");
    }
}

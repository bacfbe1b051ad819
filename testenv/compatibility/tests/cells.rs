//! The words of a cell, by invented results.
#![cfg(test)]

use portcullis_compatibility::table::{Table, make};
use portcullis_compatibility::{Combination, Differences, Features, Filter, Outcome, Results, Run};
use portcullis_harness::{deps, project_root};
use serde_json::{Value, json};

const PROBE: &str = "stub::probe";
const PROOF: &str = "stub::proof";

/// One feature for both builds and one for the module alone.
fn features(remarks: Value) -> Features {
    let list = json!([{"feature": "first", "tests": [PROOF]}, {"feature": "second", "module": [PROOF]}]);
    serde_json::from_value(json!({"probe": PROBE, "features": list, "remarks": remarks})).unwrap()
}

/// Everything passes, but for what is changed.
fn results(features: &Features, change: impl Fn(&mut Run)) -> Results {
    let run = |one: Combination| {
        let tests = features.tests(one.filter).into_iter().map(|test| (test.to_owned(), Outcome::Passed)).collect();
        let kubernetes = deps::pinned("KUBERNETES_VERSION").unwrap();
        let mut run = Run { envoy: one.envoy, filter: one.filter, kubernetes, seconds: 1, refusal: None, tests };
        change(&mut run);
        run
    };
    Results { runs: Combination::all().into_iter().map(run).collect() }
}

fn table(remarks: Value, change: impl Fn(&mut Run)) -> Table {
    let features = features(remarks);
    let results = results(&features, change);
    results.check(&features).unwrap();
    make(&features, &Differences::read(&project_root()).unwrap(), &results).unwrap()
}

fn row<'a>(table: &'a Table, feature: &str) -> Vec<&'a str> {
    let row = table.text.lines().find(|line| line.starts_with(&format!("| {feature} |"))).unwrap();
    row.split('|').map(str::trim).skip(2).take(Combination::all().len()).collect()
}

fn fails_on_the_oldest(run: &mut Run) {
    if run.envoy.starts_with("1.38.") && run.filter == Filter::Module {
        run.tests.insert(PROOF.to_owned(), Outcome::Failed);
    }
}

#[test]
fn passing_feature_works_and_untried_one_has_no_cell() {
    let table = table(json!([]), |run| {
        run.tests.insert(PROOF.to_owned(), Outcome::Repeated);
        if run.filter == Filter::Wasm {
            run.tests.insert(PROOF.to_owned(), Outcome::Passed);
        }
    });
    assert_eq!(row(&table, "first"), ["yes"; 6]);
    assert_eq!(row(&table, "second"), ["yes", "–", "yes", "–", "yes", "–"]);
    assert_eq!(table.complaints, [""; 0]);
}

#[test]
fn failing_feature_does_not_work_and_needs_a_reason() {
    let found = table(json!([]), fails_on_the_oldest);
    assert_eq!(row(&found, "first")[..2], ["no", "yes"]);
    assert_eq!(found.complaints.len(), 2, "one for each feature: {:?}", found.complaints);
    let told = |excuses: Value| {
        let about = |feature: &str| json!({"feature": feature, "envoy": ["1.38"], "filter": ["module"], "text": "Because", "excuses": excuses});
        table(json!([about("first"), about("second")]), fails_on_the_oldest)
    };
    assert_eq!(told(json!([])).complaints.len(), 2, "a remark about something else is no reason");
    let found = told(json!([PROOF]));
    assert_eq!((row(&found, "first")[0], found.complaints.len()), ("no (1)", 0), "{found:?}");
    assert!(found.text.ends_with("\n1. Because\n"), "{}", found.text);
}

#[test]
fn reason_for_what_passes_is_complained_about() {
    let remark = json!({"feature": "first", "envoy": ["1.40"], "text": "Because", "excuses": [PROOF]});
    assert_eq!(table(json!([remark]), |_| ()).complaints.len(), 2, "one for each build");
}

#[test]
fn combination_that_serves_nothing_says_why() {
    let found = table(json!([]), |run| {
        if run.envoy.starts_with("1.38.") && run.filter == Filter::Wasm {
            run.refusal = Some("no V8".to_owned());
            run.tests = [(PROBE.to_owned(), Outcome::Failed)].into();
        }
    });
    assert_eq!(row(&found, "first")[..3], ["yes", "no (1)", "yes"]);
    assert!(found.text.contains("refuses portcullis.wasm: `no V8`"), "{}", found.text);
    assert_eq!(found.complaints, [""; 0]);
}

#[test]
fn results_of_other_versions_and_tests_are_refused() {
    let features = features(json!([]));
    let checks = |change: fn(&mut Run)| results(&features, change).check(&features).is_ok();
    assert!(checks(|_| ()));
    assert!(!checks(|run| run.envoy = run.envoy.replace("1.40.", "1.41.")));
    assert!(!checks(|run| run.kubernetes = "1.2.3".to_owned()));
    assert!(!checks(|run| _ = run.tests.remove(PROOF)));
    assert!(!checks(|run| _ = run.tests.insert("stub::gone".to_owned(), Outcome::Passed)));
}

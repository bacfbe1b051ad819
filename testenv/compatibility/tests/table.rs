//! The table in `docs/compatibility.md` is what the last run of `make compatibility` found, and that run was about the features
//! and versions of today. Runs no test of a feature itself.
#![cfg(test)]

use std::path::Path;

use portcullis_compatibility::{Differences, Features, Filter, Results, table};
use portcullis_harness::project_root;

#[test]
fn every_feature_is_proven_by_tests_that_exist() {
    let root = project_root();
    let features = Features::read(&root).unwrap();
    assert!(features.features.len() > 20, "{}", features.features.len());
    for test in Filter::ALL.iter().flat_map(|filter| features.tests(*filter)) {
        assert!(exists(&root.join("testenv/e2e/tests"), test), "there is no test {test}");
    }
}

/// Whether the file of the test's module contains the test, and it is not ignored.
fn exists(tests: &Path, test: &str) -> bool {
    let (module, name) = test.rsplit_once("::").unwrap();
    let file = tests.join(module.replace("::", "/"));
    let source =
        std::fs::read_to_string(file.with_extension("rs")).or_else(|_| std::fs::read_to_string(file.join("mod.rs")));
    source.unwrap_or_default().contains(&format!("#[test]\nfn {name}("))
}

#[test]
fn last_run_was_about_these_features_and_versions() {
    let root = project_root();
    Results::read(&root).unwrap().check(&Features::read(&root).unwrap()).unwrap();
}

#[test]
fn table_is_what_the_last_run_found_and_explains_every_no() {
    let root = project_root();
    let (features, differences) = (Features::read(&root).unwrap(), Differences::read(&root).unwrap());
    let table = table::make(&features, &differences, &Results::read(&root).unwrap()).unwrap();
    assert_eq!(table.complaints, [""; 0]);
    assert_eq!(table::written(&root).unwrap(), table.text, "`target/debug/portcullis-compatibility --table` writes it");
}

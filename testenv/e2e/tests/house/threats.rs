//! docs/threat-model.md names the test of each defence: every test that it names exists, and `make test` runs it.

use std::fs;

use portcullis_harness::project_root;

/// Tests that a page names, as `path.rs::name` in backquotes; a path ends with `.rs`.
fn named(page: &str) -> Vec<(&str, &str)> {
    page.split('`').skip(1).step_by(2).filter_map(|word| word.split_once(".rs::")).collect()
}

/// Why a test does not exist, if it does not. Its path is that of the project, or one below the end-to-end tests.
pub(crate) fn fault(path: &str, name: &str) -> Option<String> {
    let places = [project_root(), project_root().join("testenv/e2e/tests")];
    let found = places.iter().find_map(|place| fs::read_to_string(place.join(format!("{path}.rs"))).ok());
    let Some(source) = found else { return Some(format!("there is no file {path}.rs")) };
    let heads = [format!("fn {name}("), format!("fn {name}<")];
    let Some(at) = heads.iter().find_map(|head| source.find(head)) else {
        return Some(format!("{path}.rs has no function {name}"));
    };
    // Its attributes are between the end of the item before and itself. proptest's own are the same.
    let before = &source[..at];
    let attributes = before.rfind("\n\n").map_or(before, |end| &before[end..]);
    let is_test = ["#[test]", "#[tokio::test"].iter().any(|attribute| attributes.contains(attribute));
    if attributes.contains("#[ignore") {
        return Some(format!("{path}.rs: {name} is left out of make test"));
    }
    (!is_test).then(|| format!("{path}.rs: {name} is no test"))
}

#[test]
fn tests_of_the_threat_model_exist() {
    let page = fs::read_to_string(project_root().join("docs/threat-model.md")).unwrap();
    let tests = named(&page);
    assert!(tests.len() > 40, "{} tests are named", tests.len());
    let faults: Vec<String> = tests.iter().filter_map(|(path, name)| fault(path, name)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // The page stays one that is read.
    assert!(page.lines().count() <= 250);
}

#[test]
fn tests_that_are_gone_are_noticed() {
    let here = "testenv/e2e/tests/house/threats";
    assert_eq!(fault(here, "tests_that_are_gone_are_noticed"), None);
    let ignored = fault("stub/stuffing", "ten_thousand_refused_credentials_take_little_memory");
    assert!(ignored.unwrap().contains("left out"));
    for (path, name) in [(here, "no_such_test"), (here, "named"), ("testenv/e2e/tests/house/nothing", "a")] {
        assert!(fault(path, name).is_some(), "{path} {name}");
    }
    assert_eq!(named("| `a/b.rs::c` | `d` `e.rs::f_g` |"), [("a/b", "c"), ("e", "f_g")]);
}

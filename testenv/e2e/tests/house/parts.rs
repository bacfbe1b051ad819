//! The parts of the tests that `make test` leaves out: each has tests and a target, and CI runs them all.

use std::fs;

use portcullis_harness::project_root;
use serde_json::Value;

fn read(name: &str) -> String {
    fs::read_to_string(project_root().join(name)).unwrap()
}

/// Each part with the beginnings of its tests' names, as in `kube::store::`.
fn parts() -> Vec<(String, Vec<String>)> {
    let parts: serde_json::Map<String, Value> = serde_json::from_str(&read("testenv/parts.json")).unwrap();
    let beginnings =
        |value: &Value| value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    parts.iter().map(|(part, names)| (part.clone(), beginnings(names))).collect()
}

/// Whether `beginning` is that of a test's name: a module below testenv/e2e/tests, or a function in one.
fn is_of_a_test(beginning: &str) -> bool {
    let path = |modules: &str| project_root().join("testenv/e2e/tests").join(modules.replace("::", "/"));
    let has_test = |path: std::path::PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("#[test]"));
    match beginning.strip_suffix("::") {
        Some(module) => path(module).is_dir() || has_test(path(module).with_extension("rs")),
        None => beginning.rsplit_once("::").is_some_and(|(module, test)| {
            fs::read_to_string(path(module).with_extension("rs")).is_ok_and(|text| text.contains(&format!("fn {test}")))
        }),
    }
}

#[test]
fn each_part_has_tests_a_target_and_a_line_in_the_docs() {
    let (makefile, docs) = (read("Makefile"), read("docs/testing.md"));
    for (part, beginnings) in parts() {
        assert!(!beginnings.is_empty(), "{part}");
        for beginning in beginnings {
            assert!(is_of_a_test(&beginning), "{part}: no test begins with {beginning}");
        }
        assert!(makefile.contains(&format!("--part {part}\n")), "{part}: no target of the Makefile runs it");
        let target = makefile.split(&format!("--part {part}\n")).next().and_then(|before| {
            before.lines().rev().find_map(|line| line.split_once(": ##").map(|(target, _)| target.to_owned()))
        });
        assert!(
            docs.contains(&format!("`make {}`", target.unwrap())),
            "{part}: docs/testing.md does not have its target"
        );
    }
}

#[test]
fn ci_runs_every_part() {
    let ci = read(".ci/run");
    assert!(ci.lines().any(|line| line == "exec make test-all"), "{ci}");
    let script = read("testenv/scripts/test");
    let all = script.split("if [ -n \"$all\" ]; then\n    \"$scripts/run-tests\"\n");
    assert_eq!(all.count(), 2, "with `all` testenv/scripts/test leaves no test out");
}

//! Rules of the house that no other tool checks.

#![cfg(test)]

mod chart_values;
mod docs;
mod faults;
mod file_lengths;
mod images;
mod kubernetes_versions;
mod modules;
mod parts;
mod test_names;
mod texts;
mod threats;
mod type_names;

use std::fs;

use portcullis_harness::project_root;
use serde_json::Value;

#[test]
fn crates_banned_in_deny_toml_are_not_in_the_lock_file() {
    let read = |name: &str| fs::read_to_string(project_root().join(name)).unwrap();
    let (deny, lock) = (read("deny.toml"), read("Cargo.lock"));
    let banned: Vec<&str> =
        deny.lines().filter_map(|line| line.trim().strip_prefix("{ crate = \"")?.split('"').next()).collect();
    assert!(banned.contains(&"openssl-sys"), "the bans are read from deny.toml: {banned:?}");
    for name in banned {
        assert!(!lock.contains(&format!("name = \"{name}\"\n")), "{name} is banned and in Cargo.lock");
    }
}

#[test]
fn every_ban_has_a_reason() {
    let deny = fs::read_to_string(project_root().join("deny.toml")).unwrap();
    for line in deny.lines().filter(|line| line.trim().starts_with("{ crate")) {
        assert!(line.contains("reason = \""), "{line}");
    }
}

#[test]
fn unsafe_code_is_forbidden_outside_the_abi_crate() {
    let root = fs::read_to_string(project_root().join("Cargo.toml")).unwrap();
    assert!(root.contains("unsafe_code = \"forbid\""));
    let members = root.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    let mut exceptions = Vec::new();
    for member in members {
        let manifest = fs::read_to_string(project_root().join(member).join("Cargo.toml")).unwrap();
        if !manifest.contains("[lints]\nworkspace = true") {
            exceptions.push(member);
        }
    }
    assert_eq!(exceptions, ["filters/envoy-abi"]);
}

/// The differences of portcullis.wasm in `docs/compatibility.md` are the parts that the tests with it leave out.
#[test]
fn wasm_differences_are_documented_and_their_tests_exist() {
    let read = |name: &str| fs::read_to_string(project_root().join(name)).unwrap();
    let differences: Value = serde_json::from_str(&read("testenv/e2e/wasm-differences.json")).unwrap();
    let mut table = String::from("| | libportcullis.so | portcullis.wasm |\n|---|---|---|\n");
    for difference in differences.as_array().unwrap() {
        let text = |key: &str| difference[key].as_str().unwrap();
        table += &format!("| {} | {} | {} |\n", text("what"), text("module"), text("wasm"));
        for test in difference["tests"].as_array().unwrap() {
            let path: Vec<&str> = test.as_str().unwrap().split("::").collect();
            let (name, modules) = path.split_last().unwrap();
            let module = format!("testenv/e2e/tests/stub/{}", modules.join("/"));
            let is_folder = project_root().join(format!("{module}/mod.rs")).exists();
            let source = read(&if is_folder { format!("{module}/mod.rs") } else { format!("{module}.rs") });
            assert!(name.is_empty() || source.contains(&format!("fn {name}(")), "there is no test {test}");
        }
    }
    let docs = read("docs/compatibility.md");
    let told =
        docs.split("wasm-differences.json -->\n").nth(1).and_then(|rest| rest.split("<!-- end of wasm -->").next());
    assert_eq!(told, Some(table.as_str()));
}

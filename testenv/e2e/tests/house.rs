//! Rules of the house that no other tool checks.

use std::fs;

use portcullis_harness::project_root;

#[test]
fn nothing_that_deny_toml_bans_is_in_the_lock_file() {
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

//! Names of types: one name, one thing. A name is used twice at most, as for a thing in two crates.

use std::collections::BTreeMap;

use portcullis_harness::project_root;

use crate::texts::{files, product_files};

const MAX_DEFINITIONS: usize = 2;

/// Types that mirror another's objects for serde, and have their names.
const MIRRORS: [(&str, &str); 3] = [
    ("Status", "filters/core/src/review/access.rs"),
    ("Status", "filters/core/src/review/token.rs"),
    ("Gateway", "control-plane/gateway-api/src/gateway.rs"),
];

/// The type that a line defines. Associated types are not among them: their traits name them.
fn defined(line: &str) -> Option<&str> {
    let is_inner = line.starts_with(' ');
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| rest.trim_start_matches(|c| c != ' ').trim_start());
    let (kind, rest) = line.split_once(' ')?;
    let is_type = matches!(kind, "struct" | "enum" | "union" | "trait") || (kind == "type" && !is_inner);
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|_| is_type)
}

#[test]
fn type_names_are_defined_twice_at_most() {
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let roots = ["filters", "control-plane"].map(|folder| files(folder, &["src/lib.rs", "src/main.rs"]));
    for root in roots.into_iter().flatten() {
        let (source, name) = (root.parent().unwrap(), root.file_name().unwrap().to_str().unwrap());
        for (_, path, code) in product_files(source, name) {
            let path = path.strip_prefix(project_root()).unwrap().to_str().unwrap().to_owned();
            for name in code.lines().filter_map(defined).filter(|name| !MIRRORS.contains(&(name, &path))) {
                definitions.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
    }
    assert!(definitions.len() > 600, "{}", definitions.len());
    definitions.retain(|_, paths| paths.len() > MAX_DEFINITIONS);
    assert!(definitions.is_empty(), "{definitions:#?}");
}

#[test]
fn type_definitions_are_found() {
    assert_eq!(defined("pub(super) struct Server<T> {"), Some("Server"));
    assert_eq!(defined("    enum Event {"), Some("Event"));
    assert_eq!(defined("type Names = Vec<String>;"), Some("Names"));
    assert_eq!(defined("    type Item = Vec<u8>;"), None);
    assert_eq!(defined("impl Server {"), None);
}

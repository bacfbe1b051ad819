//! The places at which the filter can be made to panic: each is struck by a test.

use std::collections::BTreeSet;
use std::fs;

use portcullis_harness::project_root;

use crate::texts::files;

const CALLS: [&str; 3] = ["strike(\"", "strike_once(\"", "strike_if_named(\""];

/// The first string of each such call.
fn places(source: &str) -> impl Iterator<Item = &str> {
    let of_call = |call| source.split(call).skip(1).filter_map(|rest| rest.split('"').next());
    CALLS.into_iter().flat_map(of_call)
}

#[test]
fn every_place_of_a_fault_is_struck_by_a_test() {
    let sources = ["filters/core/src", "filters/dynamic-module/src", "filters/proxy-wasm/src", "filters/envoy-abi/src"];
    let read = |path: std::path::PathBuf| fs::read_to_string(path).unwrap();
    let sources: Vec<String> = sources.into_iter().flat_map(|folder| files(folder, &[".rs"])).map(read).collect();
    let places: BTreeSet<&str> = sources.iter().flat_map(|source| places(source)).collect();
    assert!(places.len() > 15, "{places:?}");
    let tests = ["faults.rs", "wasm.rs"].map(|name| read(project_root().join("testenv/e2e/tests/stub").join(name)));
    let names = |place: &str| [format!("\"{place}\""), format!("\"fault-injection-{place}")];
    let is_struck = |place: &str| names(place).iter().any(|name| tests.iter().any(|test| test.contains(name.as_str())));
    let forgotten: Vec<&&str> = places.iter().filter(|place| !is_struck(place)).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
}

//! The work of an attach step grows with its objects, and not with their square.

use serde_json::{Value, json};

use super::world::{class, gateway, http_route, inventory, listener, read};
use crate::attach;
use crate::host::tests::comparisons;

/// The comparisons of host names for this many routes, with as many clusters, at listeners that share a port.
fn work(count: usize) -> u64 {
    let listeners: Vec<Value> = ["", "*.test", "*.a.test", "*.b.test"]
        .iter()
        .zip(["l", "m", "n", "o"])
        .map(|(host, name)| listener(name, 443, "HTTPS", host))
        .collect();
    let host = |index: usize| format!("x{index}.{}.test", ["a", "b", "c"][index % 3]);
    let routes = (0..count).map(|index| http_route(&format!("r{index}"), &[&host(index)], &["c2"]));
    let wide = http_route("wide", &["*.test", "*.c.test"], &["c2"]);
    let documents: Vec<Value> = [class(), gateway(&json!(listeners)), wide].into_iter().chain(routes).collect();
    let objects = read(&documents);
    let mut inventory = inventory();
    for index in 0..count {
        let names = [format!("c{index}.c.test"), format!("*.c{index}.c.test")];
        inventory.clusters.insert(format!("cluster{index}"), names.into());
    }
    comparisons(|| drop(attach(&objects, &inventory)))
}

#[test]
fn work_grows_with_the_number_of_objects() {
    let (some, many) = (work(100), work(400));
    assert!(some > 100, "{some}");
    assert!(many < some * 5, "{some} for 100 objects, and {many} for 400");
}

//! The names of a host's objects by `envoy/istio/render`: no two hosts share one, or the second would overwrite the first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use portcullis_harness::certs::Ca;
use portcullis_harness::rundir::RunDir;
use serde_json::Value;

use super::render::{pki, printed, run_script};

/// The most that a label of DNS has (RFC 1123), which is what Istio's names of ports have to be, too.
const LABEL: usize = 63;

fn objects(build: &str, host: &str, pki: &Path) -> Vec<Value> {
    let text = printed(&run_script("istio", &[build, &format!("name={host}")], pki, &[]));
    serde_saphyr::from_multiple(&text).unwrap()
}

/// The names that are unique in a namespace, in a mesh or in the filter.
fn names(objects: &[Value]) -> BTreeSet<(String, String)> {
    let mut names = BTreeSet::new();
    let mut add = |kind: &str, name: &Value| names.extend([(kind.to_owned(), name.as_str().unwrap().to_owned())]);
    for object in objects {
        add(object["kind"].as_str().unwrap(), &object["metadata"]["name"]);
        match object["kind"].as_str().unwrap() {
            "ServiceEntry" => add("host in the mesh", &object["spec"]["hosts"][0]),
            "Gateway" => add("port", &object["spec"]["servers"][0]["port"]["name"]),
            "EnvoyFilter" => of_filter(&object["spec"]["configPatches"], &mut add),
            _ => {}
        }
    }
    names
}

/// The filter's configuration for a cluster, by whose name it counts.
fn of_filter(patches: &Value, add: &mut impl FnMut(&str, &Value)) {
    for patch in patches.as_array().unwrap() {
        let value = &patch["patch"]["value"];
        let module = value.pointer("/typed_per_filter_config/portcullis/filter_config/value");
        let wasm = value.pointer("/metadata/filter_metadata/portcullis/config");
        if let Some(text) = module.or(wasm).and_then(Value::as_str) {
            add("cluster", &serde_json::from_str::<Value>(text).unwrap()["name"]);
        }
    }
}

fn is_label(name: &str) -> bool {
    let inner = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    inner && !name.is_empty() && name.len() <= LABEL && !name.starts_with('-') && !name.ends_with('-')
}

fn host_of(length: usize, last: &str) -> String {
    let mut host = String::from("prod");
    while host.len() + 11 + last.len() < length {
        host += ".long-label";
    }
    format!("{host}.{}{last}", "x".repeat(length - host.len() - 1 - last.len()))
}

#[test]
fn object_is_named_after_the_whole_host() {
    let run = RunDir::new("render-names").unwrap();
    let pki = pki(&run, &Ca::new("clients").unwrap());
    for (host, name) in [
        ("prod", "prod"),
        ("prod.example.com", "prod-example-com"),
        ("my-prod.example.com", "my--prod-example-com"),
        ("my.prod.example.com", "my-prod-example-com"),
        ("xn--bcher-kva.example", "xn----bcher--kva-example"),
        ("istio-ingress.istio-ingress", "istio--ingress-istio--ingress"),
        ("ingressgateway.prod-example-com", "ingressgateway-prod--example--com"),
    ] {
        let found = objects("module", host, &pki);
        let of_kind = |kind: &str| found.iter().find(|object| object["kind"] == kind).unwrap();
        assert_eq!(of_kind("Gateway")["metadata"]["name"], name, "{host}");
        let service = format!("{name}.kube-apiserver.internal");
        assert_eq!(of_kind("ServiceEntry")["spec"]["hosts"][0], service, "{host}");
    }
}

#[test]
fn two_hosts_have_no_object_in_common() {
    let run = RunDir::new("render-two").unwrap();
    let pki = pki(&run, &Ca::new("clients").unwrap());
    let (long, longer) = (host_of(51, ""), host_of(52, ""));
    let (one, other) = (host_of(253, "one"), host_of(253, "two"));
    let hosts =
        ["prod.example.com", "prod.example.org", "prod-example.com", "prod.example-com", "prod-example-com", "prod"];
    let hosts = hosts.into_iter().chain(["prod--example.com", "prod-serving", "prod-portcullis.example.com"]);
    let hosts: Vec<&str> = hosts.chain([&*long, &*longer, &*one, &*other]).collect();
    let mut owners = BTreeMap::new();
    let builds =
        ["wasm", "request-info", "policy"].into_iter().flat_map(|build| [(build, "a.prod"), (build, "a.prod-b")]);
    for (build, host) in hosts.into_iter().map(|host| ("module", host)).chain(builds) {
        let names = names(&objects(build, host, &pki));
        assert!(names.iter().any(|(kind, _)| kind == "cluster"), "{build}, {host}");
        // One for all hosts of a gateway.
        for (kind, name) in names.into_iter().filter(|(kind, _)| kind != "WasmPlugin") {
            assert!(name.split('.').all(is_label), "{build}, {host}: {kind} {name}");
            assert!(name.contains("prod"), "{build}, {host}: readable: {kind} {name}");
            let owner = *owners.entry((kind, name)).or_insert(host);
            assert_eq!(owner, host, "{build}");
        }
    }
}

//! Request info, as `RequestInfoFactory` and `BasicLongRunningRequestCheck` see it.
#![cfg(test)]

use portcullis_core::request_info::{RequestInfo, unescape_path};
use portcullis_oracle_tests::{Dice, Oracle, bytes, narrowed_list, target, text};
use serde_json::{Value, json};

const CASES: usize = 40_000;

fn question(method: &str, target: &str) -> Value {
    json!({"ask": "requestInfo", "method": method, "target": text(target.as_bytes())})
}

/// The oracle's words for what the core makes of it.
fn ours(method: &str, target: &str) -> Value {
    let (raw, query) = target.split_once('?').unwrap_or((target, ""));
    let Ok(path) = unescape_path(raw.as_bytes()) else { return json!("target") };
    let Ok(info) = RequestInfo::resolve(method.as_bytes(), &path, query.as_bytes()) else { return json!("info") };
    let selectors = info.selectors(query.as_bytes());
    json!({
        "isResource": info.is_resource,
        "verb": text(&info.verb),
        "path": text(info.path),
        "apiPrefix": text(info.api_prefix),
        "apiGroup": text(info.api_group),
        "apiVersion": text(info.api_version),
        "namespace": text(info.namespace),
        "resource": text(info.resource),
        "subresource": text(info.subresource),
        "name": text(&info.name),
        "fieldSelector": text(&selectors.field.unwrap_or_default()),
        "labelSelector": text(&selectors.label.unwrap_or_default()),
        "longRunning": info.is_long_running(),
    })
}

fn theirs(answer: Value) -> Value {
    answer.get("error").cloned().unwrap_or(answer)
}

fn compare(oracle: &Oracle, requests: &[(&str, String)]) {
    let questions: Vec<Value> = requests.iter().map(|(method, target)| question(method, target)).collect();
    let answers = oracle.ask(&questions);
    let mut differences: Vec<String> = Vec::new();
    for ((method, target), answer) in requests.iter().zip(answers) {
        let (theirs, ours) = (theirs(answer), ours(method, target));
        if theirs != ours {
            differences.push(format!("{method} {target}\n  kube-apiserver {theirs}\n  here           {ours}"));
        }
    }
    differences.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    differences.dedup();
    let shortest: Vec<String> = differences.iter().take(10).cloned().collect();
    assert!(differences.is_empty(), "{} differences, the shortest:\n{}", differences.len(), shortest.join("\n"));
}

#[test]
fn requests_resolve_as_kube_apiserver_resolves_them() {
    let Some(oracle) = Oracle::or_skip("request info beside kube-apiserver's") else { return };
    let (mut dice, cases) = Dice::from_environment(CASES);
    let requests: Vec<_> = (0..cases).map(|_| target(&mut dice)).collect();
    let resources = requests.iter().filter(|(_, target)| ours("GET", target)["isResource"] == json!(true)).count();
    assert!(resources > cases / 3, "most requests are worth asking about: {resources}");
    compare(&oracle, &requests);
}

#[test]
fn lists_are_narrowed_where_kube_apiserver_narrows_them() {
    let Some(oracle) = Oracle::or_skip("narrowed lists") else { return };
    let (mut dice, cases) = Dice::from_environment(CASES);
    let requests: Vec<_> = (0..cases).map(|_| narrowed_list(&mut dice)).collect();
    let narrowed = requests.iter().filter(|(_, target)| ours("GET", target)["name"] == json!("a")).count();
    assert!((cases / 20..cases / 2).contains(&narrowed), "some are narrowed and some are not: {narrowed}");
    compare(&oracle, &requests);
}

/// Requests that were read differently once, or that only just were not.
#[test]
fn known_traps_resolve_as_kube_apiserver_resolves_them() {
    let Some(oracle) = Oracle::or_skip("traps of request info") else { return };
    let traps = include_str!("traps/targets.txt");
    let mut requests: Vec<_> = traps
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .filter_map(|line| line.split_once(' '))
        .map(|(method, target)| (method, target.to_owned()))
        .collect();
    assert!(requests.len() > 30);
    // Go reads at most 10,000 parameters, or none.
    for ampersands in [9_999, 10_000] {
        let padding = "&".repeat(ampersands);
        requests.push(("GET", format!("/api/v1/pods?watch=1&fieldSelector=metadata.name%3Da&limit=5{padding}")));
        requests.push(("GET", format!("/api/v1/pods?watch=1{padding}")));
    }
    compare(&oracle, &requests);
}

#[test]
fn oracle_tells_bytes_apart() {
    let Some(oracle) = Oracle::or_skip("bytes") else { return };
    let [answer] = &*oracle.ask(&[question("GET", "/%ff%00é")]) else { panic!("one answer") };
    assert_eq!(bytes(&answer["path"]), b"/\xff\x00\xc3\xa9");
}

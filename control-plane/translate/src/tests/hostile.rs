//! One object must not cost what all of them together may.

use serde_json::{Value, json};

use super::fixture::{Pki, set, translated};
use crate::diagnosis::Reason;

fn with_names(pki: &Pki, count: usize) -> Value {
    let mut document = pki.cluster("many.test");
    let names: Vec<_> = (0..count).map(|number| format!("n{number}.test")).collect();
    set(&mut document, "/spec/secureServing/serverNames", json!(names));
    document
}

/// A cluster whose policies spread over the same `count` subsets, each by three strategies.
fn with_strategies(pki: &Pki, count: usize) -> Value {
    let mut document = with_subsets(pki, count);
    let policies = document["spec"]["dispatchPolicies"].as_array().unwrap().clone();
    let by = |strategy: &'static str| {
        policies.iter().cloned().map(move |mut policy| {
            policy["strategy"] = json!(strategy);
            policy
        })
    };
    let all = by("").chain(by("RoundRobin")).chain(by("LeastRequest")).chain(by("Random")).collect();
    set(&mut document, "/spec/dispatchPolicies", all);
    document
}

/// A cluster whose policies name `count` different subsets of its ten servers.
fn with_subsets(pki: &Pki, count: usize) -> Value {
    let mut document = pki.cluster("many.test");
    let servers: Vec<_> = (0..10).map(|number| format!("https://10.0.0.{number}:6443")).collect();
    let listed: Vec<_> = servers.iter().map(|server| json!({"endpoint": server})).collect();
    set(&mut document, "/spec/servers", json!(listed));
    let rules = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let policy = |bits: usize| {
        let subset: Vec<_> = servers.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, s)| s).collect();
        json!({"upstreamSubset": subset, "rules": rules})
    };
    // Each one twice.
    set(&mut document, "/spec/dispatchPolicies", (1..=count).chain(1..=count).map(policy).collect());
    document
}

#[test]
fn object_that_asks_for_too_much_is_refused_and_stops_no_other() {
    let pki = Pki::new();
    let table = [
        (with_names(&pki, 256), None),
        (with_names(&pki, 40_000), Some("spec.secureServing.serverNames")),
        (with_subsets(&pki, 100), None),
        (with_strategies(&pki, 33), None),
        (with_strategies(&pki, 34), Some("spec.dispatchPolicies[236].upstreamSubset")),
        (with_subsets(&pki, 101), Some("spec.dispatchPolicies[100].upstreamSubset")),
    ];
    for (document, wrong) in table {
        let out = translated(&pki.settings(), &[document, pki.cluster("other.test")]);
        let [found, other] = &out.diagnoses[..] else { panic!("one diagnosis each") };
        assert_eq!(found.problems.first().map(|problem| problem.path.as_str()), wrong);
        assert_eq!(found.reason, if wrong.is_some() { Reason::Invalid } else { Reason::Accepted });
        assert!(other.accepted);
        assert!(out.resources().len() < 500, "{}", out.resources().len());
    }
}

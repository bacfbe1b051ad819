//! Weights of servers are a matter of endpoints alone.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use prost::Message;
use serde_json::{Value, json};

use super::fixture::{Pki, set, translated};
use crate::Translation;
use crate::resource::type_urls;

const SERVERS: [&str; 2] = ["https://10.0.0.1:6443", "https://10.0.0.2:6443"];

/// The fields of a cluster whose servers have these weights.
fn with_weights(pki: &Pki, weights: [Option<u32>; 2], transport: &str) -> Value {
    let mut cluster = pki.cluster("prod.example.com");
    let servers = SERVERS.into_iter().zip(weights);
    let servers: Vec<_> =
        servers.map(|(endpoint, weight)| json!({"endpoint": endpoint, "zone": "", "weight": weight})).collect();
    set(&mut cluster, "/spec/portcullis", json!({"servers": servers, "transport": transport}));
    cluster
}

fn of(pki: &Pki, weights: [Option<u32>; 2], transport: &str) -> Translation {
    let translation = translated(&pki.settings(), &[with_weights(pki, weights, transport)]);
    assert!(translation.diagnoses[0].accepted, "{:?}", translation.diagnoses);
    translation
}

/// The types of resources whose content differs; no name does.
fn changed(before: &Translation, after: &Translation) -> BTreeSet<&'static str> {
    let (before, after) = (before.resources(), after.resources());
    assert_eq!(before.len(), after.len());
    let pairs = before.iter().zip(&after);
    pairs.clone().for_each(|(was, is)| assert_eq!((was.type_url, &was.name), (is.type_url, &is.name)));
    pairs.filter(|(was, is)| was != is).map(|(was, _)| was.type_url).collect()
}

/// The weights of each assignment's endpoints, 0 where none is written, by its group.
fn weights(translation: &Translation) -> BTreeMap<String, Vec<u32>> {
    let all = translation.resources().into_iter().filter(|one| one.type_url == type_urls::assignment());
    let assignments = all.map(|one| ClusterLoadAssignment::decode(one.value.as_slice()).unwrap());
    let of_one = |assignment: ClusterLoadAssignment| {
        let group = assignment.cluster_name.rsplit('/').next().unwrap().split('@').next().unwrap().to_owned();
        let endpoints = assignment.endpoints.iter().flat_map(|zone| &zone.lb_endpoints);
        (group, endpoints.map(|one| one.load_balancing_weight.as_ref().map_or(0, |weight| weight.value)).collect())
    };
    assignments.map(of_one).collect()
}

#[test]
fn edit_of_weights_changes_endpoints_alone() {
    let pki = Pki::new();
    for transport in ["TLSTerminate", "TLSPassthrough"] {
        let (blue, green) = (of(&pki, [Some(3), Some(1)], transport), of(&pki, [Some(1), Some(3)], transport));
        assert_eq!(changed(&blue, &green), [type_urls::assignment()].into(), "{transport}");
        assert_eq!((&weights(&blue)["all"], &weights(&green)["all"]), (&vec![3, 0], &vec![0, 3]), "{transport}");
    }
}

/// A server of much weight is tried again and again, as the only one of a zone is.
#[test]
fn first_weight_changes_endpoints_and_retries() {
    let pki = Pki::new();
    let (without, with) = (of(&pki, [None, None], ""), of(&pki, [Some(9), None], ""));
    assert_eq!(changed(&without, &with), [type_urls::assignment(), type_urls::route_configuration()].into());
}

#[test]
fn weight_of_one_is_that_of_a_server_without() {
    let pki = Pki::new();
    let (without, with) = (of(&pki, [None, None], ""), of(&pki, [Some(1), Some(1)], ""));
    assert_eq!(changed(&without, &with), [].into());
    assert!(weights(&without).values().flatten().all(|weight| *weight == 0));
}

#[test]
fn weights_are_of_round_robin_alone() {
    let pki = Pki::new();
    let mut cluster = with_weights(&pki, [Some(3), Some(5)], "");
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let policies =
        ["RoundRobin", "LeastRequest", "Random"].map(|strategy| json!({"rules": rules, "strategy": strategy}));
    set(&mut cluster, "/spec/dispatchPolicies", json!(policies));
    let found = weights(&translated(&pki.settings(), &[cluster]));
    let wanted = [("all", vec![3, 5]), ("all-least-request", vec![0, 0]), ("all-random", vec![0, 0])];
    assert_eq!(found, wanted.map(|(group, weights)| (group.to_owned(), weights)).into());
}

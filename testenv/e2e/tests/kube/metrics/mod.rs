//! The gateway's counts of answers beside those of the kube-apiserver that gave them.

mod durations;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use durations::Durations;
use portcullis_e2e::{Labels, MetricsPage};
use portcullis_harness::client::{H2Client, Outgoing};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::KubeFixture;

const SOON: Duration = Duration::from_secs(30);
/// Labels that both have.
const SHARED: [&str; 5] = ["verb", "resource", "subresource", "scope", "code"];
/// Requests under way at a time.
const AT_ONCE: usize = 16;

/// Numbers by [`SHARED`] labels.
type Counts = BTreeMap<[String; 5], i64>;

#[test]
fn counts_of_answers_are_those_of_kube_apiserver() {
    compare("metrics", 400);
}

#[test]
#[ignore = "takes longer than 30 seconds"]
fn counts_of_100000_answers_are_those_of_kube_apiserver() {
    compare("metrics-many", 100_000);
}

fn compare(test: &str, requests: usize) {
    let Some(fixture) = KubeFixture::start(test, &KubeOptions::default()) else { return };
    let admin = H2Client::connect(&fixture.target().identity(fixture.kube.admin())).unwrap();
    let bob = H2Client::connect(&fixture.target().identity(&fixture.bob)).unwrap();
    let page = || MetricsPage::read(&fixture.admin(&["get", "--raw", "/metrics"]), "apiserver_");
    let apiservers = || of_tested(&page(), "");
    let gateways = || of_tested(&MetricsPage::of(&fixture.gateway), "apiserver_");
    let before = apiservers();
    let durations_before = Durations::of(&page(), "", is_timed);
    let started = Instant::now();
    assert_eq!(bob.get("/api/v1/namespaces/default/pods", &[]).unwrap().status, 403);
    let head = admin.request("HEAD", "/api/v1/namespaces/default/pods/none", &[], b"").unwrap();
    assert_eq!(head.status, 405);
    let answers = admin.burst((0..requests).map(request).collect(), AT_ONCE);
    let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let took = started.elapsed();

    let equal = || {
        let mut expected = apiservers();
        for (labels, count) in &before {
            *expected.entry(labels.clone()).or_default() -= count;
        }
        expected.retain(|_, count| *count != 0);
        let mut counted = gateways();
        // Answers of kube-apiserver before its handlers are missing from its own counts.
        for uncounted in [["LIST", "pods", "", "namespace", "403"], ["GET", "pods", "", "resource", "405"]] {
            if counted.remove(&uncounted.map(str::to_owned)) != Some(1) {
                return Err(format!("{uncounted:?} is missing"));
            }
        }
        if counted == expected { Ok(counted) } else { Err(differences(&counted, &expected)) }
    };
    let counted = wait::until_ok("the counts are equal", SOON, equal).unwrap();
    let total: i64 = counted.values().sum();
    assert_eq!(total, i64::try_from(requests).unwrap());
    eprintln!("{total} answers under {} combinations of labels in {took:.1?}", counted.len());
    for ([verb, resource, subresource, scope, code], count) in &counted {
        eprintln!("{count:>7} {verb} {resource} {subresource} {scope} {code}");
    }

    let ours = Durations::of(&MetricsPage::of(&fixture.gateway), "apiserver_", is_timed);
    let theirs = Durations::of(&page(), "", is_timed).since(&durations_before);
    let compared = ours.none_shorter(&theirs).unwrap();
    assert!(compared >= 8, "{compared} combinations");
    // Each lane of the client waited for one answer at a time.
    let (least, most) = (ours.least(), took * u32::try_from(AT_ONCE).unwrap());
    eprintln!("at least {least:.1?} of {most:.1?} at the gateway, {:.1?} at kube-apiserver", theirs.least());
    assert!(least <= most);
}

/// Requests that both time alike: kube-apiserver times watches to their end, the gateway to their headers, and the HEAD that
/// kube-apiserver refuses before it counts is among the reads of pods.
fn is_timed(labels: &Labels) -> bool {
    let is = |name: &str, value: &str| labels.get(name).is_some_and(|one| one == value);
    let is_of_head = is("verb", "GET") && is("resource", "pods") && is("subresource", "");
    is_tested(labels) && !is("verb", "WATCH") && !is_of_head
}

/// A request of the mix: reads, writes and what goes wrong with them, on resources that nothing else in the test asks for.
fn request(number: usize) -> Outgoing {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let name = format!("m{}", number / 12);
    let (method, path, kind, body) = match number % 12 {
        0 => ("POST", MAPS.to_owned(), "application/json", map(&name)),
        1 => ("POST", MAPS.to_owned(), "application/json", "{".to_owned()),
        2 => ("GET", format!("{MAPS}/none"), "", String::new()),
        3 => ("GET", format!("{MAPS}?limit=5"), "", String::new()),
        4 => ("GET", "/api/v1/configmaps?limit=1".to_owned(), "", String::new()),
        5 => ("PATCH", format!("{MAPS}/none"), "application/merge-patch+json", "{}".to_owned()),
        6 => {
            let path = format!("{MAPS}/applied?fieldManager=test");
            ("PATCH", path, "application/apply-patch+yaml", map("applied"))
        }
        7 => ("DELETE", format!("{DEPLOYMENTS}/none"), "", String::new()),
        8 => ("GET", format!("{PODS}/none/log"), "", String::new()),
        9 => ("PUT", format!("{DEPLOYMENTS}/none"), "application/json", "[]".to_owned()),
        10 => ("DELETE", format!("{DEPLOYMENTS}?labelSelector=a=b"), "", String::new()),
        _ if number % 240 == 11 => ("GET", format!("{PODS}?watch=true&timeoutSeconds=1"), "", String::new()),
        _ => ("GET", format!("{PODS}/none"), "", String::new()),
    };
    let headers = [("content-type".to_owned(), kind.as_bytes().to_vec())];
    let headers = headers.into_iter().filter(|(_, kind)| !kind.is_empty()).collect();
    Outgoing { method: method.to_owned(), path, headers, body: body.into_bytes() }
}

/// The answers about the resources of [`request`] that a server gave.
fn of_tested(page: &MetricsPage, prefix: &str) -> Counts {
    let mut counts = Counts::new();
    for (labels, count) in page.series_of(&format!("{prefix}request_total")) {
        let of = |name: &str| labels.get(name).cloned().unwrap_or_default();
        if is_tested(labels) {
            *counts.entry(SHARED.map(of)).or_default() += i64::try_from(count).unwrap();
        }
    }
    counts
}

fn is_tested(labels: &Labels) -> bool {
    let has = |name: &str, values: &[&str]| labels.get(name).is_some_and(|value| values.contains(&value.as_str()));
    // The apiserver watches config maps, and pods of all namespaces, itself; each such watch ends after some minutes.
    let is_own = has("verb", &["WATCH"]) && (has("resource", &["configmaps"]) || has("scope", &["cluster"]));
    has("resource", &["configmaps", "deployments", "pods"]) && !is_own
}

fn differences(counted: &Counts, expected: &Counts) -> String {
    let labels = counted.keys().chain(expected.keys());
    let both = labels.map(|key| (key, counted.get(key).unwrap_or(&0), expected.get(key).unwrap_or(&0)));
    let different: BTreeMap<_, _> =
        both.filter(|(_, ours, theirs)| ours != theirs).map(|(key, ours, theirs)| (key, (ours, theirs))).collect();
    format!("ours, kube-apiserver's: {different:?}")
}

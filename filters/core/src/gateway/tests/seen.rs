//! The traces of a request for the operator: labels, and a line where the configuration asks for one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::observe::Outcome;

/// Cluster and policies as their `logMode`s decide.
fn logging(refused: bool, policies: [bool; 2]) -> Fixture {
    fixture_with(|config| {
        config.log_refused = refused;
        let written = config.policies.policies().into_owned().into_iter().zip(policies);
        config.policies = written.map(|(policy, log)| Policy { log, ..policy }).collect();
    })
}

/// The labels under which the request counts, and its line.
fn seen(fixture: &Fixture, method: &str, path: &str, headers: Headers<'_>) -> (String, Option<Value>) {
    let mut all = vec![(":method", method), (":path", path), (":authority", "prod.example.com")];
    all.extend_from_slice(headers);
    let chain = testing::encode(&[&issue(testing::alice(), &fixture.ca)]);
    let scan = fixture
        .gateway
        .scan(Some(&fixture.route.cluster), all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let answers = ReviewAnswers::default();
    let request =
        RequestContext { scan: &scan, peer: Peer::Chain(&chain), answers: &answers, now: now(), uptime: UPTIME };
    let mut seen = RequestRecord::default();
    let outcome = match fixture.gateway.decide_recording(&fixture.route.cluster, &request, &mut seen) {
        Decision::Refuse(refusal) => Outcome::Refused(refusal.cause),
        _ => Outcome::Forwarded,
    };
    let series = fixture.route.cluster.series();
    series.count(seen.key, outcome);
    let mut labels = Vec::new();
    series.take(|values, count| labels.push(format!("{} {count}", values.join(" "))));
    let line = seen.entry.map(|entry| serde_json::from_str(&format!("{{{}}}", entry.finish(outcome, None))).unwrap());
    (labels.join("\n"), line)
}

#[test]
fn request_counts_under_what_it_was_and_what_became_of_it() {
    let fixture = fixture();
    let table: [(&str, &str, Headers<'_>, &str); 7] = [
        ("GET", POD, &[], "GET pods  1 - forwarded -"),
        ("GET", "/api/v1/secrets?watch=1", &[], "WATCH secrets  0 few forwarded -"),
        ("POST", "/api/v1/namespaces/n/pods/a/exec?command=x", &[], "CONNECT pods exec 1 - forwarded -"),
        ("PURGE", "/apis/x.io/v1/inventions/1", &[], "other other  1 - forwarded -"),
        ("HEAD", "/healthz", &[], "GET   1 - forwarded -"),
        ("DELETE", "/api/v1/pods", &[], "DELETE pods  - - refused no_policy"),
        ("GET", POD, &[("via", "1.1 lab")], "other other  - - refused loop"),
    ];
    for (method, path, headers, expected) in table {
        let (labels, line) = seen(&fixture, method, path, headers);
        assert_eq!(labels, format!("prod.example.com {expected} 1"), "{method} {path}");
        assert_eq!(line, None, "nobody asked for a line");
    }
}

#[test]
fn line_is_written_where_cluster_or_policy_asks_for_it() {
    let requests = [("GET", "/api/v1/secrets"), ("GET", POD), ("DELETE", "/api/v1/pods"), ("GET", "/api/v1/%zz")];
    let table = [
        (false, [false, false], [false, false, false, false]),
        (false, [true, false], [true, false, false, false]),
        (true, [true, true], [true, true, true, true]),
        (true, [false, true], [false, true, true, true]),
    ];
    for (refused, policies, expected) in table {
        let fixture = logging(refused, policies);
        let written = requests.map(|(method, path)| seen(&fixture, method, path, &[]).1.is_some());
        assert_eq!(written, expected, "{refused} {policies:?}");
    }
}

#[test]
fn line_holds_what_the_request_was_and_nothing_of_its_query() {
    let fixture = logging(true, [true, true]);
    let exec = "/api/v1/namespaces/n/pods/a/exec?command=cat&command=/etc/shadow&access_token=t";
    let (_, line) = seen(&fixture, "POST", exec, &[("authorization", "Basic c2VjcmV0")]);
    assert_eq!(
        line.unwrap(),
        json!({
            "cluster": "prod.example.com", "verb": "create", "apiVersion": "v1", "resource": "pods",
            "subresource": "exec", "namespace": "n", "name": "a", "user": "alice",
            "groups": ["dev", "system:authenticated"], "policy": "1", "schema": "-", "serverGroup": "all",
            "method": "POST", "path": "/api/v1/namespaces/n/pods/a/exec", "decision": "forwarded", "reason": "-",
        })
    );
    let (_, line) = seen(&fixture, "GET", "/api/v1/%zz?x", &[]);
    assert_eq!(
        line.unwrap(),
        json!({
            "cluster": "prod.example.com", "method": "GET", "path": "/api/v1/%zz", "decision": "refused",
            "reason": "bad_request",
        }),
        "who it was is not known yet"
    );
}

#[test]
fn gauges_tell_places_and_what_is_remembered() {
    let fixture = fixture_with(|config| {
        let few = FlowControlSchema::local("few", FlowControlLimit::MaxRequestsInflight(3));
        let rate = FlowControlSchema::local("rate", FlowControlLimit::TokenBucket { qps: 1, burst: 1 });
        config.flow_control_schemas = vec![few, rate];
    });
    let _ = seen(&fixture, "GET", POD, &[]);
    let gauges: BTreeMap<_, _> = fixture
        .route
        .cluster
        .series()
        .gauges()
        .into_iter()
        .map(|(metric, labels, value)| (format!("{} {}", metric.name, labels.join(" ")), value))
        .collect();
    assert_eq!(gauges["credential_cache_entries prod.example.com certificates"], 1);
    assert_eq!(gauges["credential_cache_entries prod.example.com tokens"], 0);
    assert_eq!(gauges["reviews_in_flight prod.example.com"], 0);
    assert_eq!(gauges["requests_in_flight prod.example.com few"], 0);
    assert_eq!(gauges["requests_in_flight_limit prod.example.com few"], 3);
    assert_eq!(gauges["apiserver_current_inflight_requests prod.example.com readOnly"], 0);
    assert_eq!(gauges["requests_per_second_limit prod.example.com rate"], 1);
    assert_eq!(gauges.len(), 13, "a token bucket has a rate and no permits: {gauges:?}");
}

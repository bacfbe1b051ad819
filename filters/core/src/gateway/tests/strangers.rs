//! Clients that are not authenticated make few series, whatever they ask for.

use std::collections::BTreeSet;

use super::*;
use crate::observe::built_in::BUILT_IN;
use crate::observe::catalog::Metric;
use crate::observe::{MetricsSink, Outcome, Publisher, Response, Server};
use crate::state_store::ProcessState;

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "PURGE", "HEAD"];

#[derive(Default)]
struct Series(BTreeSet<String>);

impl MetricsSink for Series {
    fn add(&mut self, metric: Metric, labels: &[&str], _count: u64) {
        self.0.insert(format!("{} {}", metric.name, labels.join(",")));
    }

    fn set(&mut self, _metric: Metric, _labels: &[&str], _before: u64, _value: u64) {}
}

/// Sends a request to the cluster, counts it and its answer, which a server gives if it is forwarded.
fn send(fixture: &Fixture, publisher: &Publisher, request: (&str, &str), peer: Peer<'_>, more: Headers<'_>, code: u16) {
    let mut headers = vec![(":method", request.0), (":path", request.1), (":authority", "prod.example.com")];
    headers.extend_from_slice(more);
    let scan = fixture
        .gateway
        .scan(Some(&fixture.route.cluster), headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let answers = ReviewAnswers::default();
    let context = RequestContext { scan: &scan, peer, answers: &answers, now: now(), uptime: UPTIME };
    let mut seen = RequestRecord::default();
    let decision = fixture.gateway.decide_recording(&fixture.route.cluster, &context, &mut seen);
    let time = Some(Duration::from_millis(7));
    let (outcome, response) = match decision {
        Decision::Refuse(refusal) => {
            let Refusal { code, cause, .. } = refusal;
            let none = Response { code, server: None, duration: None, server_duration: None, bytes: Some(9) };
            (Outcome::Refused(cause), none)
        }
        _ => {
            let server = Some(Server::Unnamed);
            (Outcome::Forwarded, Response { code, server, duration: time, server_duration: time, bytes: Some(9) })
        }
    };
    let metrics = fixture.route.cluster.series();
    publisher.count(Some(metrics), &seen, outcome);
    publisher.count_response(Some(metrics), &seen, &response);
}

/// Sends every verb of these resources, in each scope.
fn walk((fixture, names): (&Fixture, &[&str]), publisher: &Publisher, peer: Peer<'_>, more: Headers<'_>, code: u16) {
    for name in names {
        let (resource, subresource) = name.split_once('/').unwrap_or((name, ""));
        let objects = format!("/api/v1/namespaces/n/{resource}");
        let one = format!("{objects}/a/{subresource}");
        let all = format!("/apis/g/v1/{resource}");
        for path in [&*one, &*objects, &*all, "/healthz", "/invented", "/api/v1/inventions", &format!("{all}?watch=1")]
        {
            for method in METHODS {
                send(fixture, publisher, (method, path), peer, more, code);
            }
        }
    }
}

fn written(publisher: &Publisher) -> BTreeSet<String> {
    let mut series = Series::default();
    while !publisher.publish(&mut series) {}
    series.0
}

fn fixture_of(state: &ProcessState, name: &str, change: impl FnOnce(&mut ClusterConfig)) -> Fixture {
    fixture_in(&state.with_secret([7; 32]), |config| {
        config.name = format!("lab/-/{name}");
        config.policies = portcullis_filter_config::Dispatch::All;
        change(config);
    })
}

#[test]
fn strangers_leave_a_users_details_to_all_clusters() {
    let (state, publisher) = (ProcessState::default(), Publisher::default());
    for name in ["a", "b"] {
        let fixture = fixture_of(&state, name, |_| {});
        walk((&fixture, &BUILT_IN), &publisher, Peer::None, &[], 403);
        walk((&fixture, &BUILT_IN), &publisher, Peer::None, &[("authorization", "Bearer abc")], 401);
        let series = written(&publisher);
        let resources: BTreeSet<_> = series.iter().filter(|name| name.starts_with("requests_total")).collect();
        let is_coarse = |name: &&&String| [",other,,", ",,,"].iter().any(|words| name.contains(words));
        assert_eq!(resources.iter().filter(is_coarse).count(), resources.len(), "{resources:#?}");
        assert!((100..1_700).contains(&series.len()), "{name}: {}", series.len());
    }
    // By as many names as they know.
    let greedy: Vec<_> = (0..100).map(|number| fixture_of(&state, &format!("c{number}"), |_| {})).collect();
    greedy.iter().for_each(|fixture| walk((fixture, &BUILT_IN[..20]), &publisher, Peer::None, &[], 403));
    let all = written(&publisher).len();
    assert!(all < 8_192 + 100 * 100, "{all}");

    let last = fixture_of(&state, "last", |_| {});
    let alice = testing::encode(&[&issue(testing::alice(), &last.ca)]);
    walk((&last, &BUILT_IN), &publisher, Peer::Chain(&alice), &[], 200);
    let details = written(&publisher);
    for detail in [
        "requests_total last,LIST,pods,,0,-,forwarded,-",
        "apiserver_request_total last,unknown,CONNECT,pods,exec,resource,200",
        "apiserver_request_duration_seconds_count last,WATCH,configmaps,,cluster",
        "apiserver_response_sizes_count last,LIST,secrets,,namespace",
    ] {
        assert!(details.contains(detail), "{detail}");
    }
}

#[test]
fn refused_requests_make_no_histogram() {
    let (state, publisher) = (ProcessState::default(), Publisher::default());
    let fixture = fixture_of(&state, "a", |config| config.allow_anonymous = false);
    walk((&fixture, &BUILT_IN), &publisher, Peer::None, &[], 401);
    let series = written(&publisher);
    assert!(
        series.iter().all(|name| name.starts_with("requests_total") || name.contains("request_total")),
        "{series:#?}"
    );
    assert!(series.len() < 80, "{series:#?}");
}

/// The upstream is the judge of credentials that the gateway does not review.
#[test]
fn unreviewed_credential_counts_in_detail_once_it_is_let_in() {
    let (state, publisher) = (ProcessState::default(), Publisher::default());
    let fixture = fixture_of(&state, "a", |config| {
        (config.upstream_identity, config.client_ca) = (UpstreamIdentity::ClientCredential, None);
    });
    let token = [("authorization", "Bearer abc")];
    let answers = |code| {
        send(&fixture, &publisher, ("GET", POD), Peer::None, &token, code);
        let answered = written(&publisher).into_iter().filter(|name| name.starts_with("apiserver_request_total"));
        answered.collect::<Vec<_>>()
    };
    for code in [401, 403, 500, 0] {
        let expected = format!("apiserver_request_total a,unknown,GET,other,,resource,{code}");
        assert_eq!(answers(code), [expected]);
    }
    for code in [200, 304] {
        assert_eq!(answers(code), [format!("apiserver_request_total a,unknown,GET,pods,,resource,{code}")]);
    }
}

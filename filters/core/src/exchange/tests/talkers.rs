//! Requests of clients that are counted by name.

use super::*;
use crate::gateway::tests::fixture_in;
use crate::state_store::ProcessState;

/// The cluster's talkers so far: name, requests, lists and refusals of users, then of user agents.
fn talkers(fixture: &Fixture) -> [Vec<(String, u64, u64, u64)>; 2] {
    let talkers = fixture.route.cluster.series().talkers().unwrap();
    talkers.merge();
    let top = talkers.top();
    [top.users, top.user_agents].map(|list| {
        let mut list: Vec<_> = list.into_iter().map(|one| (one.name, one.requests, one.lists, one.refusals)).collect();
        list.sort();
        list
    })
}

fn counted(name: &str, requests: u64, lists: u64, refusals: u64) -> (String, u64, u64, u64) {
    (name.to_owned(), requests, lists, refusals)
}

const AGENT: (&str, &str) = ("user-agent", "kubectl/v1 (linux/amd64)");

#[test]
fn request_counts_once_for_its_client() {
    let state = ProcessState::default();
    let fixture = fixture_in(&state.with_secret([7; 32]), |config| config.top_talkers = Some(10));
    let nothing = [vec![], vec![]];
    let list = |fixture: &Fixture| {
        let mut host = proxy(fixture, "/api/v1/pods", &[AGENT]);
        let (mut exchange, _) = begin(fixture, &mut host);
        assert_eq!(talkers(fixture), nothing, "it counts when it ends");
        host.status = Some("200");
        exchange.response_headers(&mut host);
        exchange.complete(&mut host);
    };
    list(&fixture);
    let once = |name: &str| vec![counted(name, 1, 1, 0)];
    assert_eq!(talkers(&fixture), [once("alice"), once("kubectl/v1")]);

    let mut host = proxy(&fixture, WATCH, &[AGENT]);
    let (mut exchange, _) = begin(&fixture, &mut host);
    let twice = |name: &str| vec![counted(name, 2, 2, 0)];
    assert_eq!(talkers(&fixture), [twice("alice"), twice("kubectl/v1")], "a watch may not end for days");
    host.status = Some("200");
    exchange.response_headers(&mut host);
    exchange.complete(&mut host);
    assert_eq!(talkers(&fixture), [twice("alice"), twice("kubectl/v1")]);
}

#[test]
fn refusal_counts_for_the_client_that_was_authenticated() {
    let state = ProcessState::default();
    let fixture = fixture_in(&state.with_secret([7; 32]), |config| config.top_talkers = Some(10));
    let refused = |method: &str, more: &[(&str, &str)], has_certificate: bool| {
        let mut host = proxy(&fixture, "/api/v1/pods", more);
        host.headers[0].1 = method.as_bytes().to_vec();
        host.chain = host.chain.filter(|_| has_certificate);
        let (mut exchange, next) = begin(&fixture, &mut host);
        assert_eq!(next, Next::Stop);
        exchange.complete(&mut host);
    };
    refused("DELETE", &[AGENT], true);
    refused("GET", &[("authorization", "Bearer a"), ("user-agent", "curl/8")], false);
    refused("DELETE", &[], false);
    let users = vec![counted("alice", 1, 0, 1), counted("system:anonymous", 1, 0, 1)];
    let agents = vec![counted("(not authenticated)", 2, 1, 2), counted("kubectl/v1", 1, 0, 1)];
    assert_eq!(talkers(&fixture), [users, agents], "whoever sent the token is nobody");
}

/// Strangers would otherwise make names of Prometheus's series as they like.
#[test]
fn agents_of_strangers_have_one_name() {
    let state = ProcessState::default();
    let fixture = fixture_in(&state.with_secret([7; 32]), |config| config.top_talkers = Some(10));
    let mut alice = proxy(&fixture, "/api/v1/pods", &[AGENT]);
    begin(&fixture, &mut alice).0.complete(&mut alice);
    for number in 0..2_000 {
        let agent = format!("invented-{number}/1");
        let mut host = proxy(&fixture, "/api/v1/pods", &[("authorization", "Bearer a"), ("user-agent", &agent)]);
        host.chain = None;
        begin(&fixture, &mut host).0.complete(&mut host);
    }
    let agents = vec![counted("(not authenticated)", 2_000, 2_000, 2_000), counted("kubectl/v1", 1, 1, 0)];
    assert_eq!(talkers(&fixture)[1], agents);
}

/// A server judges the credential; its answer says whether the client's word counts.
#[test]
fn agent_counts_by_name_once_a_server_has_let_its_client_in() {
    let state = ProcessState::default();
    let fixture = fixture_in(&state.with_secret([7; 32]), |config| {
        config.top_talkers = Some(10);
        config.upstream_identity = UpstreamIdentity::ClientCredential;
        config.client_ca = None;
    });
    for (status, target) in [("401", "/api/v1/pods"), ("200", "/api/v1/pods"), ("200", WATCH), ("403", WATCH)] {
        let mut host = proxy(&fixture, target, &[("authorization", "Bearer a"), AGENT]);
        host.chain = None;
        let (mut exchange, next) = begin(&fixture, &mut host);
        assert_eq!(next, Next::Continue);
        (host.status, host.server) = (Some(status), Some("a:6443".to_owned()));
        exchange.response_headers(&mut host);
        if (target, status) == (WATCH, "200") {
            let agents = vec![counted("(not authenticated)", 1, 1, 0), counted("kubectl/v1", 2, 2, 0)];
            assert_eq!(talkers(&fixture)[1], agents, "a watch may not end for days");
        }
        exchange.complete(&mut host);
    }
    let agents = vec![counted("(not authenticated)", 2, 2, 0), counted("kubectl/v1", 2, 2, 0)];
    assert_eq!(talkers(&fixture)[1], agents);
}

/// kube-apiserver overlooks such a header, and shows its version to anonymous clients.
#[test]
fn header_that_is_no_token_gives_no_name() {
    let state = ProcessState::default();
    let fixture = fixture_in(&state.with_secret([7; 32]), |config| {
        config.top_talkers = Some(10);
        config.upstream_identity = UpstreamIdentity::ClientCredential;
        config.client_ca = None;
    });
    for value in ["x", "Basic x", "Bearer "] {
        let mut host = proxy(&fixture, "/version", &[("authorization", value), AGENT]);
        host.chain = None;
        let (mut exchange, next) = begin(&fixture, &mut host);
        assert_eq!(next, Next::Continue, "{value}");
        (host.status, host.server) = (Some("200"), Some("a:6443".to_owned()));
        exchange.response_headers(&mut host);
        exchange.complete(&mut host);
    }
    let names: Vec<_> = talkers(&fixture)[1].iter().map(|one| one.0.clone()).collect();
    assert_eq!(names, ["(not authenticated)"]);
}

#[test]
fn clients_are_not_counted_unless_asked_for() {
    let state = ProcessState::default();
    let fixture = fixture_in(&state.with_secret([7; 32]), |_| ());
    assert!(fixture.route.cluster.series().talkers().is_none());
    let without_activity = fixture_with(|config| config.top_talkers = Some(10));
    assert!(without_activity.route.cluster.series().talkers().is_none(), "the host shows none");
}

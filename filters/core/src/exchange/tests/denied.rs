//! Requests that run for long, and an edit that denies them.

use portcullis_filter_config::{AccessEntry, AccessLists, AccessScope, ClusterConfig, MAX_USER_AGENT};

use super::doors::ended;
use super::*;
use crate::gateway::tests::plain_config;
use crate::long_streams::StreamOwners;
use crate::state_store::EphemeralState;
use crate::testing::moment;

struct EditedCluster {
    fixture: Fixture,
    owners: StreamOwners<()>,
    clusters: CompiledClusters,
}

impl EditedCluster {
    fn new() -> Self {
        EditedCluster { fixture: fixture(), owners: StreamOwners::default(), clusters: CompiledClusters::default() }
    }

    /// Puts a configuration with these access lists into use, or one without any.
    fn load(&self, deny: Vec<AccessEntry>, allow: Vec<AccessEntry>) -> RouteConfig<()> {
        let is_open = deny.is_empty() && allow.is_empty();
        let lists = AccessLists { scope: AccessScope::Cluster, deny, allow };
        let config = ClusterConfig {
            access: if is_open { vec![] } else { vec![lists] },
            ..plain_config(Some(self.fixture.ca.pem()))
        };
        let text = serde_json::to_vec(&config).unwrap();
        let (route, update) = RouteConfig::load(&text, &EphemeralState([7; 32]), &self.owners, &self.clusters).unwrap();
        drop(update.apply(&self.owners, moment(Duration::ZERO)));
        route
    }

    fn begin(&self, route: &RouteConfig<()>, host: &mut Proxy) -> Exchange<()> {
        let mut exchange = Exchange::default();
        assert_eq!(exchange.request_headers(&self.fixture.gateway, Some(route), host), Next::Continue);
        exchange
    }
}

const LOG: &str = "/api/v1/namespaces/n/pods/a/log?follow=true";
const PROXIED: &str = "/api/v1/namespaces/n/pods/a/proxy/upload";

/// A request of which nothing says whether a body follows.
fn request(fixture: &Fixture, method: &str, target: &str) -> Proxy {
    let mut host = proxy(fixture, target, &[]);
    host.headers[0].1 = method.as_bytes().to_vec();
    host
}

fn everything() -> Vec<AccessEntry> {
    vec![AccessEntry::default()]
}

fn by_agent(start: &str) -> Vec<AccessEntry> {
    vec![AccessEntry { user_agents: vec![start.to_owned()], ..AccessEntry::default() }]
}

/// A client may also list the header in `Connection`, which removes it from the request.
#[test]
fn list_by_agent_judges_requests_that_began_without_one() {
    let lines: [&[(&str, &str)]; 2] = [
        &[("user-agent", "kubectl/v1.36")],
        &[("connection", "user-agent"), ("user-agent", "kubectl/v1.36"), ("user-agent", "curl/8")],
    ];
    let table = [
        (by_agent("kubectl/"), vec![], true),
        (by_agent("curl/"), vec![], false),
        (vec![], by_agent("kubectl/"), false),
        (vec![], by_agent("curl/"), true),
    ];
    for (deny, allow, is_ended) in table {
        for headers in lines {
            let edited = EditedCluster::new();
            let before = edited.load(vec![], vec![]);
            let mut host = proxy(&edited.fixture, WATCH, headers);
            let mut exchange = edited.begin(&before, &mut host);
            assert_eq!(values(&host, "user-agent").is_empty(), headers.len() > 1, "removed as it is listed");
            (host.status, host.server) = (Some("200"), Some("a".to_owned()));
            exchange.response_headers(&mut host);
            let _after = edited.load(deny.clone(), allow.clone());
            assert_eq!(ended(&before), is_ended, "{deny:?} {allow:?} {headers:?}");
        }
    }
}

/// Other control planes than ours give their endpoints no metadata.
#[test]
fn denial_ends_requests_at_servers_without_a_name() {
    for target in [WATCH, LOG] {
        for (server, address, is_tracked) in
            [(Some("a"), None, true), (None, Some("10.0.0.1:6443"), true), (None, None, false)]
        {
            let edited = EditedCluster::new();
            let before = edited.load(vec![], vec![]);
            let mut host = proxy(&edited.fixture, target, &[]);
            let mut exchange = edited.begin(&before, &mut host);
            (host.status, host.server, host.address) = (Some("200"), server.map(str::to_owned), address);
            exchange.response_headers(&mut host);
            assert_eq!(exchange.long_stream().is_some(), is_tracked, "{target} {server:?} {address:?}");
            let _after = edited.load(everything(), vec![]);
            assert_eq!(ended(&before), is_tracked, "{target} {server:?} {address:?}");
        }
    }
}

#[test]
fn running_request_keeps_a_bounded_part_of_its_agent() {
    let edited = EditedCluster::new();
    let route = edited.load(vec![], vec![]);
    for (sent, kept) in [(0, 0), (MAX_USER_AGENT, MAX_USER_AGENT), (60_000, MAX_USER_AGENT)] {
        let mut host = proxy(&edited.fixture, WATCH, &[("user-agent", &"a".repeat(sent))]);
        let exchange = edited.begin(&route, &mut host);
        let Tracking::Pending { origin: Some(origin), .. } = &exchange.tracking else { panic!("it is to be tracked") };
        assert_eq!(origin.user_agent.len(), kept);
    }
}

/// A pod may read what is sent to it, or keep its client waiting, and never answer.
#[test]
fn denial_ends_requests_that_have_no_answer() {
    for (method, target) in [("POST", PROXIED), ("GET", PROXIED), ("GET", LOG)] {
        let edited = EditedCluster::new();
        let before = edited.load(vec![], vec![]);
        let mut host = request(&edited.fixture, method, target);
        let mut exchange = edited.begin(&before, &mut host);
        assert_eq!(exchange.request_body(), Next::Continue);
        let _after = edited.load(everything(), vec![]);
        assert!(ended(&before), "{method} {target}");
        // Before the stream has heard of it.
        (host.status, host.server) = (Some("200"), Some("a".to_owned()));
        assert_eq!(exchange.response_headers(&mut host), Next::Continue);
        for _ in 0..2 {
            exchange.terminate(TerminationReason::NewlyDenied, &mut host);
        }
        let effects =
            ["count cluster forwarded -", "reset portcullis_newly_denied", "count cluster ended newly_denied"];
        assert_eq!(host.effects, effects, "{method} {target}");
        exchange.complete(&mut host);
        before.streams.for_each(|()| panic!("it has left"));
    }
}

#[test]
fn request_that_the_proxy_answers_runs_no_more() {
    for (server, address, is_running) in [(None, None, false), (None, Some("10.0.0.1:6443"), true)] {
        let edited = EditedCluster::new();
        let before = edited.load(vec![], vec![]);
        let mut host = request(&edited.fixture, "POST", PROXIED);
        let mut exchange = edited.begin(&before, &mut host);
        assert!(exchange.long_stream().is_some());
        (host.status, host.server, host.address) = (Some("503"), server, address);
        exchange.response_headers(&mut host);
        let _after = edited.load(everything(), vec![]);
        assert_eq!((exchange.long_stream().is_some(), ended(&before)), (is_running, is_running), "{address:?}");
    }
}

/// It costs a lock less if it is registered with its answer, which comes at once unless a client sends what no watch has.
#[test]
fn watch_is_registered_with_its_answer_or_its_body() {
    for (has_body, is_answered, end) in [
        (true, false, Some("reset portcullis_newly_denied")),
        (true, true, Some("finish")),
        (false, true, Some("finish")),
        (false, false, None),
    ] {
        let edited = EditedCluster::new();
        let before = edited.load(vec![], vec![]);
        let mut host = request(&edited.fixture, "GET", WATCH);
        let mut exchange = edited.begin(&before, &mut host);
        assert!(exchange.long_stream().is_none() && exchange.follows_body());
        if has_body {
            exchange.follow_body(&mut host);
        }
        if is_answered {
            (host.status, host.server) = (Some("200"), Some("a".to_owned()));
            exchange.response_headers(&mut host);
            assert!(!exchange.follows_body());
        }
        let _after = edited.load(everything(), vec![]);
        assert_eq!(ended(&before), end.is_some(), "{has_body} {is_answered}");
        exchange.terminate(TerminationReason::NewlyDenied, &mut host);
        let found = host.effects.iter().find(|effect| *effect == "finish" || effect.starts_with("reset"));
        assert_eq!(found.map(String::as_str), end, "{has_body} {is_answered}");
    }
}

#[test]
fn body_of_other_requests_is_not_followed() {
    let edited = EditedCluster::new();
    let route = edited.load(vec![], vec![]);
    for (target, headers) in [(POD, &[][..]), (EXEC, &UPGRADE[..])] {
        let mut host = proxy(&edited.fixture, target, headers);
        let mut exchange = edited.begin(&route, &mut host);
        exchange.follow_body(&mut host);
        assert!(!exchange.follows_body() && exchange.long_stream().is_none(), "{target}");
    }
}

#[test]
fn upload_without_an_answer_ends_with_its_server() {
    let at = Duration::from_secs;
    // The answer may come from another server, where the proxy could not connect to the first one.
    for (answering, is_ended) in [(None, true), (Some("a"), true), (Some("b"), false)] {
        let fixture = fixture_with(|config| {
            config.servers = Some(Servers { names: vec!["b".into()], drain_seconds: 60 });
        });
        let mut host = request(&fixture, "POST", PROXIED);
        let (mut exchange, _) = begin(&fixture, &mut host);
        exchange.follow_body(&mut host);
        assert!(exchange.follows_body(), "the proxy has not connected yet");
        host.server = Some("a".to_owned());
        exchange.follow_body(&mut host);
        assert!(!exchange.follows_body() && host.effects.contains(&"call at 60".to_owned()), "{:?}", host.effects);
        if let Some(server) = answering {
            (host.status, host.server) = (Some("200"), Some(server.to_owned()));
            exchange.response_headers(&mut host);
        }
        let due = std::cell::Cell::new(None);
        fixture.route.streams.expire(at(59), |(), why| panic!("not yet: {why:?}"));
        fixture.route.streams.expire(at(60), |(), why| due.set(Some(why)));
        assert_eq!(due.get(), is_ended.then_some(TerminationReason::ServerRemoved), "{answering:?}");
    }
}

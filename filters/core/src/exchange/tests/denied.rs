//! Requests that run for long, and an edit that denies them.

use portcullis_filter_config::{AccessEntry, AccessLists, AccessScope, ClusterConfig, MAX_USER_AGENT};

use super::doors::ended;
use super::*;
use crate::exchange::tracking::Tracking;
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
    let log = "/api/v1/namespaces/n/pods/a/log?follow=true";
    for target in [WATCH, log] {
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

use std::collections::BTreeSet;

use portcullis_api::{Cluster, Endpoint, Policy, Server, Strategy};

use crate::digest::sha256_hex;

/// The group of all servers. It is always there: reviews are sent through it.
pub(crate) const ALL: &str = "all";

/// Servers that requests are spread over, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// `all`, or `s-` and a hash of the endpoints; behind it the strategy if it is not `RoundRobin`.
    pub(crate) name: String,
    /// How the requests are spread.
    pub(crate) strategy: Strategy,
    /// The servers that take requests, sorted; empty if all are disabled.
    pub(crate) servers: Vec<Server>,
}

/// Every group of a cluster, each once.
pub(crate) fn groups(cluster: &Cluster) -> Vec<Group> {
    let group = |name, strategy, subset| Group { name, strategy, servers: enabled(&cluster.servers, subset) };
    let mut groups = vec![group(ALL.to_owned(), Strategy::RoundRobin, None)];
    for policy in &cluster.policies {
        let name = group_name(policy);
        if groups.iter().all(|group| group.name != name) {
            groups.push(group(name, policy.strategy, policy.subset.as_ref()));
        }
    }
    groups
}

/// The name of a policy's group. It depends on the endpoints that the policy names, not on which of them are enabled, so
/// that disabling a server changes endpoints only.
pub(crate) fn group_name(policy: &Policy) -> String {
    let servers = policy.subset.as_ref().map_or_else(|| ALL.to_owned(), subset_name);
    match policy.strategy {
        Strategy::RoundRobin => servers,
        Strategy::LeastRequest => format!("{servers}-least-request"),
        Strategy::Random => format!("{servers}-random"),
    }
}

fn subset_name(subset: &BTreeSet<Endpoint>) -> String {
    let listed: Vec<String> = subset.iter().map(ToString::to_string).collect();
    let hash = sha256_hex(listed.iter().map(String::as_bytes));
    format!("s-{}", hash.chars().take(10).collect::<String>())
}

fn enabled(servers: &[Server], subset: Option<&BTreeSet<Endpoint>>) -> Vec<Server> {
    servers
        .iter()
        .filter(|server| server.enabled && subset.is_none_or(|subset| subset.contains(&server.endpoint)))
        .cloned()
        .collect()
}

use std::collections::BTreeSet;

use portcullis_api::{Cluster, Endpoint, Server};

use crate::identity::sha256_hex;

/// The group of all servers. It is always there: reviews are sent through it.
pub(crate) const ALL: &str = "all";

/// Servers that requests are spread over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// `all`, or `s-` and a hash of the endpoints.
    pub(crate) name: String,
    /// The endpoints that take requests, sorted; empty if all are disabled.
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Every group of a cluster, each once.
pub(crate) fn groups(cluster: &Cluster) -> Vec<Group> {
    let mut groups = vec![Group { name: ALL.to_owned(), endpoints: enabled(&cluster.servers, None) }];
    for policy in &cluster.policies {
        let name = group_name(policy.subset.as_ref());
        if groups.iter().all(|group| group.name != name) {
            groups.push(Group { name, endpoints: enabled(&cluster.servers, policy.subset.as_ref()) });
        }
    }
    groups
}

/// The name of a policy's group. It depends on the endpoints that the policy names, not on which of them are enabled, so
/// that disabling a server changes endpoints only.
pub(crate) fn group_name(subset: Option<&BTreeSet<Endpoint>>) -> String {
    let Some(subset) = subset else { return ALL.to_owned() };
    let listed: Vec<String> = subset.iter().map(ToString::to_string).collect();
    let hash = sha256_hex(listed.iter().map(String::as_bytes));
    format!("s-{}", hash.chars().take(10).collect::<String>())
}

fn enabled(servers: &[Server], subset: Option<&BTreeSet<Endpoint>>) -> Vec<Endpoint> {
    servers
        .iter()
        .filter(|server| server.enabled && subset.is_none_or(|subset| subset.contains(&server.endpoint)))
        .map(|server| server.endpoint.clone())
        .collect()
}

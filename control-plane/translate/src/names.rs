use std::collections::BTreeSet;

use portcullis_api::{Cluster, Endpoint, Policy, Server, Settings, Strategy, Tracing, upstream_of_key};
use portcullis_attach::ObjectName;
use portcullis_filter_config::{GENERATION_MARK, Pool, TCP_POOL};

use crate::generation::{Generation, sha256_hex};

/// The names of one cluster's resources: `<instance>/<namespace or ->/<name>/<part>`. They are an API: dashboards,
/// log queries and patches refer to them.
///
/// Pools, endpoints and what is shown to servers have `@<generation>` behind it, which names for statistics have not.
#[derive(Clone, Debug)]
pub struct ResourceNames {
    prefix: String,
    /// `None` where no server is reached under these names.
    generation: Option<Generation>,
}

impl ResourceNames {
    /// Names of the cluster-scoped object `name`, or of the `KubernetesUpstream` with this [`portcullis_api::upstream_key`].
    pub fn new(instance: &str, name: &str) -> Self {
        let prefix = match upstream_of_key(name) {
            Some((namespace, name)) => format!("{instance}/{namespace}/{name}"),
            None => format!("{instance}/-/{name}"),
        };
        Self { prefix, generation: None }
    }

    /// Names of an object under these settings.
    pub(crate) fn of(cluster: &Cluster, settings: &Settings) -> Self {
        let generation = Some(Generation::of(cluster, settings));
        Self { generation, ..Self::new(&settings.instance, &cluster.name) }
    }

    /// Names of a Service to which connections are passed on: those of one with another UID differ.
    pub(crate) fn of_service(instance: &str, service: &ObjectName, uid: &str) -> Self {
        let prefix = format!("{instance}/{}/{}", service.namespace, service.name);
        Self { prefix, generation: Some(Generation::of_service(uid)) }
    }

    /// Names of a route of the Gateway API, or of a Gateway: those of Envoys that belong to one.
    pub(crate) fn namespaced(instance: &str, object: &ObjectName) -> Self {
        Self { prefix: format!("{instance}/{}/{}", object.namespace, object.name), generation: None }
    }

    /// The name of the routes at a listener of a Gateway to a cluster, or to an upstream by its key.
    pub(crate) fn routes_at(&self, listener: &str, cluster: &str) -> String {
        self.part(&format!("{listener}/{cluster}/{}", parts::ROUTES))
    }

    fn marked(&self, name: String) -> String {
        match &self.generation {
            Some(generation) => format!("{name}{GENERATION_MARK}{}", generation.short()),
            None => name,
        }
    }

    /// Names of what belongs to the gateway itself.
    pub fn gateway(instance: &str) -> Self {
        Self::new(instance, "-")
    }

    /// Names of the collector of traces, which spans for another one never reach.
    pub(crate) fn collector(instance: &str, tracing: &Tracing) -> Self {
        Self { generation: Some(Generation::of_collector(tracing)), ..Self::gateway(instance) }
    }

    /// Names of listeners. The instance is not in them: Envoy would refuse a listener of another name at a taken address, so
    /// that a change of the instance could never take effect.
    pub(crate) fn listener() -> Self {
        Self::gateway("-")
    }

    /// The filter chain's name.
    pub fn chain(&self) -> &str {
        &self.prefix
    }

    /// The name of a part: a secret, the routes, the listener.
    pub fn part(&self, part: &str) -> String {
        format!("{}/{part}", self.prefix)
    }

    /// The name of a part that is another one with another content.
    pub(crate) fn of_content(&self, part: &str, content: &[u8]) -> String {
        format!("{}{GENERATION_MARK}{}", self.part(part), sha256_hex([content]))
    }

    /// The name of a secret that is shown to servers, or that they are verified by.
    pub(crate) fn upstream(&self, part: &str) -> String {
        self.marked(self.part(part))
    }

    /// A group's name in the filter's configuration, with which its destinations begin.
    pub(crate) fn word(&self, group: &str) -> String {
        self.marked(group.to_owned())
    }

    /// The name of a group's endpoints.
    pub fn group(&self, group: &str) -> String {
        self.marked(self.part(group))
    }

    /// The name of a pool's cluster.
    pub fn pool(&self, group: &str, pool: Pool) -> String {
        self.marked(self.part(&format!("{group}.{}", pool.as_str())))
    }

    /// The name of the cluster that connections are passed on to.
    pub(crate) fn tcp_pool(&self, group: &str) -> String {
        self.marked(self.part(&format!("{group}.{TCP_POOL}")))
    }

    /// Its name in statistics, the same for all generations.
    pub(crate) fn tcp_pool_stat(&self, group: &str) -> String {
        stat_name(&self.part(&format!("{group}.{TCP_POOL}")))
    }

    /// The name of a pool's cluster in statistics, the same for all generations.
    pub(crate) fn pool_stat(&self, group: &str, pool: Pool) -> String {
        stat_name(&self.part(&format!("{group}.{}", pool.as_str())))
    }
}

/// The listener of a Gateway with routes, and the cluster to which they lead, or the key of the upstream, in their name; `None` of another
/// name.
pub fn place_of_routes(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(parts::ROUTES)?.strip_suffix('/')?.splitn(4, '/').nth(3)?.split_once('/')
}

/// A name for statistics, where a dot would part it. Names of ours hold no `_`, so that no two become equal.
pub(crate) fn stat_name(name: &str) -> String {
    name.replace('.', "_")
}

/// Parts of a cluster's resource names.
pub(crate) mod parts {
    pub(crate) const ROUTES: &str = "routes";
    pub(crate) const CERTIFICATE: &str = "certificate";
    pub(crate) const PASSTHROUGH: &str = "passthrough";
    pub(crate) const SERVING: &str = "serving";
    pub(crate) const CLIENT_VALIDATION: &str = "client-validation";
    pub(crate) const FRONTEND_VALIDATION: &str = "frontend-validation";
    pub(crate) const CLIENT: &str = "client";
    pub(crate) const TOKEN: &str = "token";
    pub(crate) const UPSTREAM_CA: &str = "ca";
    pub(crate) const DEFAULT_CERTIFICATE: &str = "default-certificate";
    pub(crate) const LISTENER: &str = "listener";
    pub(crate) const PROXIED_LISTENER: &str = "proxied-listener";
    pub(crate) const TUNNEL: &str = "tunnel";
    pub(crate) const TUNNEL_LISTENER: &str = "tunnel-listener";
    pub(crate) const TUNNEL_ROUTES: &str = "tunnel-routes";
    pub(crate) const TUNNELLED: &str = "tunnelled";
    pub(crate) const TUNNELLED_LISTENER: &str = "tunnelled-listener";
    pub(crate) const COLLECTOR: &str = "collector";
    pub(crate) const COLLECTOR_CA: &str = "collector-ca";
    pub(crate) const UNRESOLVED: &str = "unresolved";
    pub(crate) const VIRTUAL_IPS: &str = "virtual-ips";
    pub(crate) const OTHER_ADDRESSES: &str = "other-addresses";
    pub(crate) const OTHER_ADDRESSES_AT_VIRTUAL_IPS: &str = "other-addresses-at-virtual-ips";
}

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

/// The group of all servers of a cluster.
pub(crate) fn all_servers(cluster: &Cluster) -> Group {
    Group { name: ALL.to_owned(), strategy: Strategy::RoundRobin, servers: enabled(&cluster.servers, None) }
}

/// Every group of a cluster, each once.
pub(crate) fn groups(cluster: &Cluster) -> Vec<Group> {
    let group = |name, strategy, subset| Group { name, strategy, servers: enabled(&cluster.servers, subset) };
    let mut groups = vec![all_servers(cluster)];
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

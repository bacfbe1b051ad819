use crate::cluster::{ClusterConfig, UpstreamIdentity};

/// The connection pool of a server group that a request is sent through. Each is an Envoy cluster of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pool {
    /// HTTP/2 with the gateway's credential.
    Http2,
    /// HTTP/1.1 with the gateway's credential, for upgrades: Envoy turns an upgrade on an HTTP/2 cluster into extended
    /// CONNECT, which kube-apiserver refuses.
    Upgrade,
    /// HTTP/1.1 without any credential of the gateway's: kube-apiserver closes an HTTP/2 connection after an unauthenticated
    /// request.
    Anonymous,
    /// HTTP/2 without any credential of the gateway's, for requests with a token of the client's own that the upstream has
    /// confirmed: a rejected one would close the connection of all others on it.
    PassThrough,
}

impl Pool {
    /// All pools.
    pub const ALL: [Pool; 4] = [Pool::Http2, Pool::Upgrade, Pool::Anonymous, Pool::PassThrough];

    /// The pools of a server group in this identity mode.
    pub const fn of(identity: &UpstreamIdentity) -> &'static [Pool] {
        match identity {
            UpstreamIdentity::Impersonate => &[Pool::Http2, Pool::Upgrade, Pool::Anonymous],
            UpstreamIdentity::RequestHeader(_) => &Pool::ALL,
            UpstreamIdentity::ClientCredential => &[Pool::Anonymous, Pool::PassThrough],
        }
    }

    /// The pool's part of a resource name and of a destination.
    pub const fn as_str(self) -> &'static str {
        match self {
            Pool::Http2 => "h2",
            Pool::Upgrade => "upgrade",
            Pool::Anonymous => "anonymous",
            Pool::PassThrough => "passthrough",
        }
    }
}

/// The part of a resource name of the pool that connections are passed on to: no request leads there.
pub const TCP_POOL: &str = "tcp";

/// The rules of a route for a request: its time limit, and whether it may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestClass {
    /// Reads that end by themselves: the request timeout holds, a reset before headers may be retried.
    Read,
    /// Reads that stay open (watch, log): no timeout, a reset before headers may be retried.
    Watch,
    /// Everything that may change something: the request timeout holds, retried only if the upstream saw nothing.
    Write,
    /// Upgrades, proxied requests and commands: no timeout, retried only if the upstream saw nothing.
    Session,
}

impl RequestClass {
    /// All classes.
    pub const ALL: [RequestClass; 4] =
        [RequestClass::Read, RequestClass::Watch, RequestClass::Write, RequestClass::Session];

    /// The class's part of a destination.
    pub const fn as_str(self) -> &'static str {
        match self {
            RequestClass::Read => "read",
            RequestClass::Watch => "watch",
            RequestClass::Write => "write",
            RequestClass::Session => "session",
        }
    }

    /// Whether the request timeout holds for this class.
    pub const fn has_timeout(self) -> bool {
        matches!(self, RequestClass::Read | RequestClass::Write)
    }

    /// Whether a request may be repeated after a reset before response headers.
    pub const fn is_repeatable(self) -> bool {
        matches!(self, RequestClass::Read | RequestClass::Watch)
    }
}

/// Between the name of something that leads to servers (a group, a pool, a secret) and the generation of the object that it
/// belongs to. An object's generation is another one whenever it is decided or believed by something else, so that a decision
/// of one generation finds nothing of another.
pub const GENERATION_MARK: char = '@';

/// A name without its generation, as people, logs and statistics know it.
pub fn without_generation(name: &str) -> &str {
    name.split_once(GENERATION_MARK).map_or(name, |(name, _)| name)
}

impl ClusterConfig {
    /// The name under which counts and limits are kept: another object of the name has another.
    pub fn counted_name(&self) -> String {
        counted_name(&self.name, &self.object)
    }
}

/// The name under which counts and limits of an object are kept, by that of its cluster and its own word, which may be empty.
pub fn counted_name(name: &str, object: &str) -> String {
    if object.is_empty() { name.to_owned() } else { format!("{name}{GENERATION_MARK}{object}") }
}

/// The name of an object in metrics and logs, by that of its cluster (`<instance>/<namespace or ->/<name>`): `namespace/name`, or the name
/// alone of an object without a namespace, so that no two objects have the same.
pub fn object_name(cluster: &str) -> &str {
    let object = cluster.split_once('/').map_or(cluster, |(_, object)| object);
    object.strip_prefix("-/").unwrap_or(object)
}

/// The value of the [`crate::names::DESTINATION`] filter state, one entry of the virtual host's matcher tree.
pub fn destination(group: &str, pool: Pool, class: RequestClass) -> String {
    format!("{group}.{}.{}", pool.as_str(), class.as_str())
}

/// Every destination of a server group with these pools. Upgrades are sessions only.
pub fn destinations(group: &str, pools: &[Pool]) -> impl Iterator<Item = (String, Pool, RequestClass)> {
    pools.iter().copied().flat_map(move |pool| {
        RequestClass::ALL
            .into_iter()
            .filter(move |class| pool != Pool::Upgrade || *class == RequestClass::Session)
            .map(move |class| (destination(group, pool, class), pool, class))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_one_name_have_others_in_metrics() {
        for (cluster, object) in [
            ("lab/-/prod", "prod"),
            ("lab/-/prod.example.com", "prod.example.com"),
            ("lab/team-a/prod", "team-a/prod"),
            ("lab/team-b/prod", "team-b/prod"),
            ("prod", "prod"),
            ("", ""),
        ] {
            assert_eq!(object_name(cluster), object, "{cluster}");
        }
    }

    #[test]
    fn every_destination_of_a_group_is_its_own() {
        let all: Vec<_> = destinations("all", &Pool::ALL).map(|(key, ..)| key).collect();
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(all.len(), 13);
        assert_eq!(unique.len(), all.len());
        assert!(all.contains(&"all.upgrade.session".to_owned()));
        assert!(!all.contains(&"all.upgrade.read".to_owned()));
    }
}

use portcullis_api::{Cluster, Settings};
use portcullis_filter_config::{GENERATION_MARK, Pool};

use crate::generation::Generation;

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
    /// Names of the cluster-scoped object `name`.
    pub fn new(instance: &str, name: &str) -> Self {
        Self { prefix: format!("{instance}/-/{name}"), generation: None }
    }

    /// Names of an object under these settings.
    pub(crate) fn of(cluster: &Cluster, settings: &Settings) -> Self {
        let generation = Some(Generation::of(cluster, settings));
        Self { generation, ..Self::new(&settings.instance, &cluster.name) }
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

    /// The name of a pool's cluster in statistics, the same for all generations.
    pub(crate) fn pool_stat(&self, group: &str, pool: Pool) -> String {
        stat_name(&self.part(&format!("{group}.{}", pool.as_str())))
    }
}

/// A name for statistics, where a dot would part it. Names of ours hold no `_`, so that no two become equal.
pub(crate) fn stat_name(name: &str) -> String {
    name.replace('.', "_")
}

/// Parts of a cluster's resource names.
pub(crate) mod parts {
    pub(crate) const ROUTES: &str = "routes";
    pub(crate) const SERVING: &str = "serving";
    pub(crate) const CLIENT_VALIDATION: &str = "client-validation";
    pub(crate) const CLIENT: &str = "client";
    pub(crate) const TOKEN: &str = "token";
    pub(crate) const UPSTREAM_CA: &str = "ca";
    pub(crate) const DEFAULT_CERTIFICATE: &str = "default-certificate";
    pub(crate) const LISTENER: &str = "listener";
    pub(crate) const PROXIED_LISTENER: &str = "proxied-listener";
    pub(crate) const VIRTUAL_IPS: &str = "virtual-ips";
}

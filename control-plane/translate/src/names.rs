use portcullis_filter_config::Pool;

/// The names of one cluster's resources: `<instance>/<namespace or ->/<name>/<part>`. They are an API: dashboards,
/// log queries and patches refer to them.
#[derive(Clone, Debug)]
pub struct ResourceNames {
    prefix: String,
}

impl ResourceNames {
    /// Names of the cluster-scoped object `name`.
    pub fn new(instance: &str, name: &str) -> Self {
        Self { prefix: format!("{instance}/-/{name}") }
    }

    /// Names of what belongs to the gateway itself.
    pub fn gateway(instance: &str) -> Self {
        Self::new(instance, "-")
    }

    /// Names of listeners. The instance is not in them: a listener of another name at an address that is taken would be
    /// refused, so another instance could never be told.
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

    /// The name of a group's endpoints.
    pub fn group(&self, group: &str) -> String {
        self.part(group)
    }

    /// The name of a pool's cluster.
    pub fn pool(&self, group: &str, pool: Pool) -> String {
        self.part(&format!("{group}.{}", pool.as_str()))
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

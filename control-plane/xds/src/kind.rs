//! What the order of updates needs to know about types.

/// A resource's type, in the order in which updates are sent, so that nothing refers to what is not there yet: clusters,
/// endpoints and secrets before listeners and routes; removals the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Cluster,
    Endpoints,
    Secret,
    Listener,
    Routes,
    Other,
}

impl Kind {
    pub(crate) fn of(type_url: &str) -> Self {
        match type_url.strip_prefix("type.googleapis.com/").unwrap_or_default() {
            "envoy.config.cluster.v3.Cluster" => Kind::Cluster,
            "envoy.config.endpoint.v3.ClusterLoadAssignment" => Kind::Endpoints,
            "envoy.extensions.transport_sockets.tls.v3.Secret" => Kind::Secret,
            "envoy.config.listener.v3.Listener" => Kind::Listener,
            "envoy.config.route.v3.RouteConfiguration" => Kind::Routes,
            _ => Kind::Other,
        }
    }

    /// A short name, for people and counters.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Cluster => "clusters",
            Kind::Endpoints => "endpoints",
            Kind::Secret => "secrets",
            Kind::Listener => "listeners",
            Kind::Routes => "routes",
            Kind::Other => "other",
        }
    }

    /// Whether "everything" may be subscribed to. Secrets go to who knows their names.
    pub(crate) fn allows_wildcard(self) -> bool {
        matches!(self, Kind::Cluster | Kind::Listener)
    }

    /// Whether others refer to resources of this type.
    pub(crate) fn is_referred_to(self) -> bool {
        matches!(self, Kind::Cluster | Kind::Endpoints | Kind::Secret)
    }
}

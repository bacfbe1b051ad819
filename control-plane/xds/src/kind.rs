//! The resource types of Envoy, their URLs and the order of their updates.

/// The type URL of clusters.
pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// The type URL of a cluster's endpoints.
pub(crate) const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// The type URL of certificates, keys and certificate authorities.
pub(crate) const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
/// The type URL of listeners.
pub(crate) const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
/// The type URL of routes.
pub(crate) const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

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
        match type_url {
            CDS => Kind::Cluster,
            EDS => Kind::Endpoints,
            SDS => Kind::Secret,
            LDS => Kind::Listener,
            RDS => Kind::Routes,
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

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
pub(crate) enum ResourceKind {
    Cluster,
    Endpoints,
    Secret,
    Listener,
    Routes,
    Other,
}

impl ResourceKind {
    pub(crate) fn of(type_url: &str) -> Self {
        match type_url {
            CDS => ResourceKind::Cluster,
            EDS => ResourceKind::Endpoints,
            SDS => ResourceKind::Secret,
            LDS => ResourceKind::Listener,
            RDS => ResourceKind::Routes,
            _ => ResourceKind::Other,
        }
    }

    /// A short name, for people and counters.
    pub(crate) fn label(self) -> &'static str {
        match self {
            ResourceKind::Cluster => "clusters",
            ResourceKind::Endpoints => "endpoints",
            ResourceKind::Secret => "secrets",
            ResourceKind::Listener => "listeners",
            ResourceKind::Routes => "routes",
            ResourceKind::Other => "other",
        }
    }

    /// Whether "everything" may be subscribed to. Secrets go to who knows their names.
    pub(crate) fn allows_wildcard(self) -> bool {
        matches!(self, ResourceKind::Cluster | ResourceKind::Listener)
    }

    /// Whether others refer to resources of this type.
    pub(crate) fn is_referred_to(self) -> bool {
        matches!(self, ResourceKind::Cluster | ResourceKind::Endpoints | ResourceKind::Secret)
    }
}

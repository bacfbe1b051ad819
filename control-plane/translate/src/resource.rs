use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use prost::Message;

use crate::names::{ResourceNames, parts};

/// One of Envoy's resources, encoded. Equal content has equal bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// `type.googleapis.com/…`.
    pub type_url: &'static str,
    /// The name, unique in its type.
    pub name: Arc<str>,
    /// The message, as in `Any.value`, without what follows. A secret's bytes are secret.
    pub value: Vec<u8>,
    /// Fields that follow `value`, in front of the parts. Listeners with the same ones have them in one allocation, and others have none.
    pub common: Bytes,
    /// The assignment that Envoy waits for when it builds this cluster: it has to be sent again with the cluster.
    pub assignment: Option<Arc<str>>,
    /// Whether Envoy gets it only when it asks for it by name.
    pub on_demand: bool,
    /// `metadata.name` of the `UpstreamCluster` that it belongs to. The listener and the default certificate have no owner.
    pub owner: Option<Arc<str>>,
    /// The parts that follow `common`, by owner: the filter chains of the listener.
    pub parts: Vec<Part>,
}

/// Resources that [`crate::Translator`] makes together, with another type or name each. As long as they are the same, so is the
/// allocation.
pub type ResourceGroup = Arc<[Arc<Resource>]>;

/// A part of a resource that belongs to one `UpstreamCluster`: fields of the same message, which protobuf reads as one with what is
/// in front of them. As long as it is the same, so are the allocations of its bytes, and of those that parts have in common there is
/// one.
#[derive(Clone, Eq, PartialOrd, Ord)]
pub struct Part {
    /// `metadata.name` of the `UpstreamCluster`.
    pub owner: Arc<str>,
    /// The fields, encoded: pieces that follow each other.
    pub body: Vec<Bytes>,
    /// The fields in their place if Envoy refuses them: a chain that closes every connection, so that the names do not fall to
    /// another object's wildcard.
    pub fallback: Bytes,
}

impl Resource {
    pub(crate) fn new<M: ResourceMessage>(name: impl Into<Arc<str>>, message: &M) -> Self {
        Self {
            type_url: M::TYPE_URL,
            name: name.into(),
            value: message.encode_to_vec(),
            common: Bytes::new(),
            assignment: None,
            on_demand: false,
            owner: None,
            parts: Vec::new(),
        }
    }

    /// The whole message, copied.
    pub fn message(&self) -> Vec<u8> {
        let parts = self.parts.iter().flat_map(|part| &part.body).map(AsRef::as_ref);
        [self.value.as_slice(), &self.common].into_iter().chain(parts).collect::<Vec<_>>().concat()
    }

    /// Whether clusters count as served by an Envoy that refuses it: the listeners of tunnels, which need another bootstrap and
    /// a port of their own. Tunnels are then not served.
    pub fn is_optional(&self) -> bool {
        let is_named = |part| *self.name == *ResourceNames::listener().part(part);
        self.type_url == type_urls::listener()
            && [parts::TUNNEL_LISTENER, parts::TUNNELLED_LISTENER].into_iter().any(is_named)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: usize = self.parts.iter().map(Part::length).sum();
        let bytes = self.value.len() + self.common.len() + parts;
        write!(f, "{} {} ({bytes} bytes)", self.type_url, self.name)
    }
}

impl Part {
    fn length(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |one: &Bytes, other: &Bytes| {
            // The same allocation is not read.
            (one.as_ptr(), one.len()) == (other.as_ptr(), other.len()) || one == other
        };
        let pieces = || self.body.iter().zip(&other.body);
        self.owner == other.owner
            && self.body.len() == other.body.len()
            && pieces().all(|(one, other)| is_same(one, other))
            && is_same(&self.fallback, &other.fallback)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.owner, self.length())
    }
}

/// A message that is a resource.
pub(crate) trait ResourceMessage: Message {
    /// `type.googleapis.com/…`.
    const TYPE_URL: &'static str;
}

impl ResourceMessage for Cluster {
    const TYPE_URL: &'static str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
}

impl ResourceMessage for ClusterLoadAssignment {
    const TYPE_URL: &'static str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
}

impl ResourceMessage for Listener {
    const TYPE_URL: &'static str = "type.googleapis.com/envoy.config.listener.v3.Listener";
}

impl ResourceMessage for RouteConfiguration {
    const TYPE_URL: &'static str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
}

impl ResourceMessage for Secret {
    const TYPE_URL: &'static str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
}

/// The types of resource that a translation holds.
pub mod type_urls {
    use super::{Cluster, ClusterLoadAssignment, Listener, ResourceMessage, RouteConfiguration, Secret};

    /// Clusters (CDS).
    pub const fn cluster() -> &'static str {
        Cluster::TYPE_URL
    }
    /// Endpoints (EDS).
    pub const fn assignment() -> &'static str {
        ClusterLoadAssignment::TYPE_URL
    }
    /// Listeners (LDS).
    pub const fn listener() -> &'static str {
        Listener::TYPE_URL
    }
    /// Routes (RDS).
    pub const fn route_configuration() -> &'static str {
        RouteConfiguration::TYPE_URL
    }
    /// Secrets (SDS).
    pub const fn secret() -> &'static str {
        Secret::TYPE_URL
    }
}

#[cfg(test)]
mod tests {
    use prost::Name;

    use super::*;

    #[test]
    fn types_have_the_names_of_their_messages() {
        fn is_named<M: ResourceMessage + Name>() -> bool {
            M::TYPE_URL == M::type_url()
        }
        assert!(is_named::<Cluster>() && is_named::<ClusterLoadAssignment>() && is_named::<Listener>());
        assert!(is_named::<RouteConfiguration>() && is_named::<Secret>());
    }
}

//! The servers behind routes.

use portcullis_api::upstream_key;
use portcullis_gateway_api::{BackendReference, GATEWAY_API_GROUP};

use super::rules::JudgedRules;
use crate::condition::{Note, Rejection};
use crate::grants::{Grants, Referent, Referrer};
use crate::input::{Inventory, Presence};
use crate::name::{CLUSTER, ObjectName, RouteKind, UPSTREAM};
use crate::upstream::JudgedUpstreams;

/// The reason of a cluster to which no connection may be passed on.
const JUDGING: &str = "PassthroughRefused";
/// The reason of a cluster to which no request may be sent.
const PASSING: &str = "TerminationRefused";

/// Why no connection is passed on to an upstream: a tenant chooses the addresses, and only the gateway's own handshake keeps these from
/// being anyone's.
const UNVERIFIED: &str = "no connection is passed on to a KubernetesUpstream, because nothing would verify its servers; a TLSRoute leads to a Service or an UpstreamCluster, and an HTTPRoute to a KubernetesUpstream";

/// A server behind a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServedBackend {
    /// An `UpstreamCluster` by its name, or a `KubernetesUpstream` by its [`upstream_key`], which no `UpstreamCluster` is called.
    Cluster(String),
    /// A port of a Service. Connections are passed on to it; no request ever is.
    Service {
        /// The Service.
        name: ObjectName,
        /// The port.
        port: u16,
    },
}

/// A server and its share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeightedBackend {
    /// The server.
    pub backend: ServedBackend,
    /// The share, in proportion to the sum of all weights, refused ones included.
    pub weight: u32,
}

/// The outcome of references.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) usable: Vec<WeightedBackend>,
    pub(super) refused_weight: u32,
    pub(super) unresolved: Option<Rejection>,
    pub(super) notes: Vec<Note>,
    /// The clusters to which connections may be passed on, whether these can be or not.
    pub(super) passed_clusters: Vec<String>,
    /// The clusters and upstreams to which requests may be sent, whether these can be or not.
    pub(super) requested_clusters: Vec<String>,
    /// Whether a share would go anywhere else.
    pub(super) leads_elsewhere: bool,
}

/// Everything that routes may refer to, and who may.
#[derive(Clone, Copy)]
pub(super) struct Referable<'a> {
    pub(super) grants: &'a Grants<'a>,
    pub(super) inventory: &'a Inventory,
    pub(super) upstreams: &'a JudgedUpstreams,
}

/// Resolves the references of a route's rule.
pub(super) fn resolve(kind: RouteKind, namespace: &str, rules: &JudgedRules<'_>, found: Referable<'_>) -> Resolved {
    let mut resolved = Resolved::default();
    let Referable { grants, inventory, upstreams } = found;
    let resolver = Resolver { kind, namespace, grants, inventory, upstreams };
    for (path, reference) in &rules.backends {
        let found = resolver.resolve(reference);
        let is_cluster = match &found {
            Ok((backend, _)) => matches!(backend, ServedBackend::Cluster(_)),
            Err(why) => [JUDGING, PASSING].contains(&why.reason),
        };
        let clusters = match kind {
            RouteKind::Tls => &mut resolved.passed_clusters,
            RouteKind::Http => &mut resolved.requested_clusters,
        };
        clusters.extend(is_cluster.then(|| resolver.key(reference)));
        resolved.leads_elsewhere |= !is_cluster && (found.is_ok() || reference.weight > 0);
        match found {
            Ok((backend, is_assumed)) => {
                let name = match &backend {
                    ServedBackend::Service { name, .. } => name.to_string(),
                    ServedBackend::Cluster(_) => reference.name.clone(),
                };
                resolved.usable.push(WeightedBackend { backend, weight: reference.weight });
                resolved.notes.extend(is_assumed.then(|| Note::assumed(path, &reference.kind, name)));
            }
            Err(mut why) => {
                resolved.refused_weight = resolved.refused_weight.saturating_add(reference.weight);
                why.message = format!("{path}: {}", why.message);
                resolved.unresolved = resolved.unresolved.or(Some(why));
            }
        }
    }
    resolved
}

struct Resolver<'a> {
    kind: RouteKind,
    namespace: &'a str,
    grants: &'a Grants<'a>,
    inventory: &'a Inventory,
    upstreams: &'a JudgedUpstreams,
}

impl Resolver<'_> {
    /// A server, and whether it is only assumed to exist.
    fn resolve(&self, reference: &BackendReference) -> Result<(ServedBackend, bool), Rejection> {
        match (reference.group.as_str(), reference.kind.as_str(), self.kind) {
            (group, kind, _) if (group, kind) == CLUSTER => self.cluster(reference),
            (group, kind, RouteKind::Http) if (group, kind) == UPSTREAM => self.upstream(reference),
            ("", "Service", RouteKind::Tls) => self.service(reference),
            ("", "Service", RouteKind::Http) => {
                let message = "an HTTPRoute leads to an UpstreamCluster or a KubernetesUpstream, never to a Service";
                Err(Rejection::new("InvalidKind", message))
            }
            (group, kind, RouteKind::Tls) if (group, kind) == UPSTREAM => {
                Err(Rejection::new("InvalidKind", UNVERIFIED))
            }
            (group, kind, _) => {
                let message = format!("{kind} of group {group:?} is not supported; UpstreamCluster is");
                Err(Rejection::new("InvalidKind", message))
            }
        }
    }

    /// A cluster has no namespace; who may refer to it is said in the control plane's own.
    fn cluster(&self, reference: &BackendReference) -> Result<(ServedBackend, bool), Rejection> {
        if reference.namespace.is_some() {
            let message = "an UpstreamCluster is cluster-scoped and has no namespace";
            return Err(Rejection::new("BackendNotFound", message));
        }
        let name = &reference.name;
        self.permitted(CLUSTER.0, CLUSTER.1, &ObjectName::new(self.inventory.home_namespace.as_str(), name.as_str()))?;
        // No name of an object has a slash, and keys of upstreams have one.
        if self.inventory.cluster(name) != Presence::Present || name.contains('/') {
            return Err(Rejection::new("BackendNotFound", format!("there is no UpstreamCluster {name}")));
        }
        if let Some(why) = self.inventory.judging_clusters.get(name).filter(|_| self.kind == RouteKind::Tls) {
            let message = format!("no connection may be passed on to UpstreamCluster {name}: {why}");
            return Err(Rejection::new(JUDGING, message));
        }
        if let Some(why) = self.inventory.passing_clusters.get(name).filter(|_| self.kind == RouteKind::Http) {
            let message = format!("no request may be sent to UpstreamCluster {name}: {why}");
            return Err(Rejection::new(PASSING, message));
        }
        let is_assumed = !self.inventory.clusters.contains_key(name);
        Ok((ServedBackend::Cluster(name.clone()), is_assumed))
    }

    /// The name by which a cluster or an upstream is known behind routes.
    fn key(&self, reference: &BackendReference) -> String {
        let is_upstream = (reference.group.as_str(), reference.kind.as_str()) == UPSTREAM;
        let namespace = reference.namespace.as_deref().unwrap_or(self.namespace);
        if is_upstream { upstream_key(namespace, &reference.name) } else { reference.name.clone() }
    }

    /// Permissions for an upstream are those of its own namespace.
    fn upstream(&self, reference: &BackendReference) -> Result<(ServedBackend, bool), Rejection> {
        let namespace = reference.namespace.as_deref().unwrap_or(self.namespace);
        let name = ObjectName::new(namespace, reference.name.as_str());
        self.permitted(UPSTREAM.0, UPSTREAM.1, &name)?;
        let is_name = !name.namespace.contains('/') && !name.name.contains('/');
        match self.upstreams.usable(&name) {
            Some(Ok(())) => Ok((ServedBackend::Cluster(self.key(reference)), false)),
            Some(Err(why)) => {
                // An author of another namespace may refer to it, and need not be able to read it.
                let why = if name.namespace == self.namespace { why.message.as_str() } else { why.reason };
                let message = format!("no request may be sent to KubernetesUpstream {name}: {why}");
                Err(Rejection::new(PASSING, message))
            }
            None if !self.inventory.is_complete && is_name => Ok((ServedBackend::Cluster(self.key(reference)), true)),
            None => Err(Rejection::new("BackendNotFound", format!("there is no KubernetesUpstream {name}"))),
        }
    }

    fn service(&self, reference: &BackendReference) -> Result<(ServedBackend, bool), Rejection> {
        let namespace = reference.namespace.as_deref().unwrap_or(self.namespace);
        let name = ObjectName::new(namespace, reference.name.as_str());
        self.permitted("", "Service", &name)?;
        let missing = |message: String| Err(Rejection::new("BackendNotFound", message));
        let Some(port) = reference.port else { return missing("a Service needs a port".to_owned()) };
        match self.inventory.service_ports(&name) {
            None => missing(format!("there is no Service {name}")),
            Some(Some(ports)) if !ports.contains(&port) => missing(format!("Service {name} has no port {port}")),
            Some(ports) => Ok((ServedBackend::Service { name, port }, ports.is_none())),
        }
    }

    /// Whether the route may refer to it. This is asked before whether it is there: another namespace's objects are not to be
    /// found out.
    fn permitted(&self, group: &str, kind: &str, name: &ObjectName) -> Result<(), Rejection> {
        let from = Referrer { group: GATEWAY_API_GROUP, kind: self.kind.as_str(), namespace: self.namespace };
        let to = Referent { group, kind, namespace: &name.namespace, name: &name.name };
        if self.grants.permit(from, to) {
            return Ok(());
        }
        let message = format!("no ReferenceGrant in namespace {} permits {kind} {}", name.namespace, name.name);
        Err(Rejection::new("RefNotPermitted", message))
    }
}

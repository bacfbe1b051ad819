use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_gateway_api::{
    Gateway, GatewayApiObject, GatewayClass, HttpRoute, ObjectMeta, ReferenceGrant, TlsRoute,
};
use portcullis_instances::Settlement;

use crate::contents::ContentName;
use crate::former::FormerCertificates;
use crate::holders::FormerHolders;
use crate::name::ObjectName;
use crate::policy::{DoorPolicies, UnfitPolicy, UpstreamPolicies};

/// The objects of the Gateway API, and those of ours that are to be judged with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayObjects {
    /// Classes, also those of other controllers.
    pub classes: Vec<GatewayClass>,
    /// Gateways, also those of other controllers.
    pub gateways: Vec<Gateway>,
    /// Routes for requests.
    pub http_routes: Vec<HttpRoute>,
    /// Routes for connections.
    pub tls_routes: Vec<TlsRoute>,
    /// Permissions.
    pub grants: Vec<ReferenceGrant>,
    /// `KubernetesUpstreams`.
    pub upstreams: Vec<UpstreamObject>,
    /// Gateways of this controller whose class is gone. They stay its own, and nothing of them is served.
    pub orphans: BTreeSet<ObjectName>,
}

/// A `KubernetesUpstream`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamObject {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// The Secrets and `ConfigMaps` that it refers to, all of its own namespace.
    pub contents: Vec<ContentName>,
}

/// The outcome of an upstream by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamState {
    /// Requests may be sent there.
    Usable,
    /// It is invalid, and why.
    Invalid(String),
    /// A reference has no content, and why.
    Unresolved(String),
}

/// Everything else that objects refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Whether an object that is not here does not exist. Otherwise it may: a file is checked alone.
    pub is_complete: bool,
    /// The kinds of which objects that are not here may exist all the same.
    pub unseen: UnseenKinds,
    /// The control plane's own namespace: a [`ReferenceGrant`] there permits references to cluster-scoped objects.
    pub home_namespace: String,
    /// Secrets with a certificate and its key.
    pub secrets: BTreeMap<ObjectName, Usability>,
    /// `ConfigMaps` with CA certificates.
    pub config_maps: BTreeMap<ObjectName, Usability>,
    /// Services, with their ports.
    pub services: BTreeMap<ObjectName, BTreeSet<u16>>,
    /// Namespaces, with their labels.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// `UpstreamClusters`, with the host names that they own.
    pub clusters: BTreeMap<String, BTreeSet<String>>,
    /// `UpstreamClusters` to which no connection may be passed on, and why.
    pub judging_clusters: BTreeMap<String, String>,
    /// `KubernetesUpstreams`, as far as they are judged by themselves.
    pub upstreams: BTreeMap<ObjectName, UpstreamState>,
    /// `UpstreamClusters` to which no request may be sent, and why; `KubernetesUpstreams` by their
    /// [`portcullis_api::upstream_key`].
    pub passing_clusters: BTreeMap<String, String>,
    /// `GatewaySettings`.
    pub settings: BTreeMap<String, Usability>,
    /// The owners of Gateways and clusters; those that are not here may lead to each other.
    pub owners: Settlement,
    /// Certificates that listeners keep while new ones are not read.
    pub former_certificates: FormerCertificates,
    /// The routes that held host names in the judgement before. They keep them, as long as they claim them.
    pub former_holders: Arc<FormerHolders>,
    /// Those that statuses list which are news here. They go before the former ones: the replica that leads has written them.
    pub listed_holders: Arc<FormerHolders>,
    /// Policies at Gateways, listeners and `HTTPRoutes`.
    pub door_policies: DoorPolicies,
    /// Policies that are attached to `KubernetesUpstreams`.
    pub upstream_policies: UpstreamPolicies,
    /// Those that do not fit an `UpstreamCluster` or a `KubernetesUpstream`, and why.
    pub unfit_policies: BTreeMap<UnfitPolicy, String>,
}

/// Kinds of which not all objects are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnseenKinds {
    /// Services.
    pub services: bool,
    /// Namespaces.
    pub namespaces: bool,
}

/// Whether an object holds what its use needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Usability {
    /// It does.
    Usable,
    /// Its last good version does and is in use; and why the newest does not.
    Former(String),
    /// It does not, and why.
    Malformed(String),
}

/// Whether an object is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence<'a> {
    /// It is, or it may be.
    Present,
    /// It is of no use, and why.
    Malformed(&'a str),
    /// It is not.
    Absent,
}

impl GatewayObjects {
    /// Adds an object to those of its kind.
    pub fn add(&mut self, object: GatewayApiObject) {
        match object {
            GatewayApiObject::GatewayClass(class) => self.classes.push(class),
            GatewayApiObject::Gateway(gateway) => self.gateways.push(*gateway),
            GatewayApiObject::HttpRoute(route) => self.http_routes.push(*route),
            GatewayApiObject::TlsRoute(route) => self.tls_routes.push(*route),
            GatewayApiObject::ReferenceGrant(grant) => self.grants.push(grant),
        }
    }
}

impl Inventory {
    pub(crate) fn secret(&self, name: &ObjectName) -> Presence<'_> {
        self.content(self.secrets.get(name))
    }

    pub(crate) fn config_map(&self, name: &ObjectName) -> Presence<'_> {
        self.content(self.config_maps.get(name))
    }

    pub(crate) fn cluster(&self, name: &str) -> Presence<'_> {
        self.presence(self.clusters.contains_key(name))
    }

    pub(crate) fn settings(&self, name: &str) -> Presence<'_> {
        match self.settings.get(name) {
            Some(Usability::Usable | Usability::Former(_)) => Presence::Present,
            Some(Usability::Malformed(why)) => Presence::Malformed(why),
            None => self.presence(false),
        }
    }

    /// Why the newest version of settings is not in use, if an earlier one is.
    pub(crate) fn newest_settings_refusal(&self, name: &str) -> Option<&str> {
        match self.settings.get(name)? {
            Usability::Former(why) => Some(why),
            Usability::Usable | Usability::Malformed(_) => None,
        }
    }

    /// Whether a namespace may have labels that are not known.
    pub(crate) fn has_unseen_namespaces(&self) -> bool {
        self.unseen.namespaces || !self.is_complete
    }

    /// The ports of a Service; `None` if it is not there, and no ports if they are not known.
    pub(crate) fn service_ports(&self, name: &ObjectName) -> Option<Option<&BTreeSet<u16>>> {
        match self.services.get(name) {
            Some(ports) => Some(Some(ports)),
            None => (self.unseen.services || !self.is_complete).then_some(None),
        }
    }

    fn content<'a>(&self, content: Option<&'a Usability>) -> Presence<'a> {
        match content {
            Some(Usability::Usable | Usability::Former(_)) => Presence::Present,
            Some(Usability::Malformed(why)) => Presence::Malformed(why),
            None => self.presence(false),
        }
    }

    fn presence(&self, is_here: bool) -> Presence<'static> {
        if is_here || !self.is_complete { Presence::Present } else { Presence::Absent }
    }
}

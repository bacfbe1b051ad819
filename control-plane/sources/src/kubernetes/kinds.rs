use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use portcullis_api::{
    CLUSTER_API_VERSION, CLUSTER_KIND, INSTANCE_API_VERSION, INSTANCE_KIND, POLICY_API_VERSION, PolicyKind,
    SECRET_LABEL, SETTINGS_API_VERSION, SETTINGS_KIND, SETTINGS_SECRET_LABEL, UPSTREAM_API_VERSION, UPSTREAM_KIND,
};

/// A kind of objects that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchedKind {
    /// `UpstreamCluster`.
    UpstreamCluster,
    /// `GatewaySettings`.
    GatewaySettings,
    /// `Instance`.
    Instance,
    /// `GatewayClass` of the Gateway API.
    GatewayClass,
    /// `Gateway` of the Gateway API.
    Gateway,
    /// `HTTPRoute` of the Gateway API.
    HttpRoute,
    /// `TLSRoute` of the Gateway API.
    TlsRoute,
    /// `ReferenceGrant` of the Gateway API.
    ReferenceGrant,
    /// `Namespace`, whose labels listeners of the Gateway API select by.
    Namespace,
    /// `Service`, to which routes of the Gateway API refer.
    Service,
    /// `KubernetesUpstream`, to which routes of the Gateway API lead.
    KubernetesUpstream,
    /// A policy that is attached to other objects.
    Policy(PolicyKind),
}

/// `apiVersion` of the Gateway API's objects.
const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

impl WatchedKind {
    /// The kinds that the Gateway API needs.
    pub const OF_GATEWAY_API: [WatchedKind; 8] = [
        WatchedKind::GatewayClass,
        WatchedKind::Gateway,
        WatchedKind::HttpRoute,
        WatchedKind::TlsRoute,
        WatchedKind::ReferenceGrant,
        WatchedKind::Namespace,
        WatchedKind::Service,
        WatchedKind::KubernetesUpstream,
    ];

    /// The kinds that policies need.
    pub const OF_POLICIES: [WatchedKind; 4] = [
        WatchedKind::Policy(PolicyKind::Dispatch),
        WatchedKind::Policy(PolicyKind::FlowControl),
        WatchedKind::Policy(PolicyKind::UpstreamIdentity),
        WatchedKind::ReferenceGrant,
    ];

    /// `apiVersion` of its objects.
    pub fn api_version(self) -> &'static str {
        self.names().0
    }

    /// `kind` of its objects.
    pub fn kind(self) -> &'static str {
        self.names().1
    }

    /// The name of the resource in paths and rights.
    pub fn plural(self) -> &'static str {
        self.names().2
    }

    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            WatchedKind::UpstreamCluster => (CLUSTER_API_VERSION, CLUSTER_KIND, "upstreamclusters"),
            WatchedKind::GatewaySettings => (SETTINGS_API_VERSION, SETTINGS_KIND, "gatewaysettings"),
            WatchedKind::Instance => (INSTANCE_API_VERSION, INSTANCE_KIND, "instances"),
            WatchedKind::GatewayClass => (GATEWAY_API, "GatewayClass", "gatewayclasses"),
            WatchedKind::Gateway => (GATEWAY_API, "Gateway", "gateways"),
            WatchedKind::HttpRoute => (GATEWAY_API, "HTTPRoute", "httproutes"),
            WatchedKind::TlsRoute => (GATEWAY_API, "TLSRoute", "tlsroutes"),
            WatchedKind::ReferenceGrant => (GATEWAY_API, "ReferenceGrant", "referencegrants"),
            WatchedKind::Namespace => ("v1", "Namespace", "namespaces"),
            WatchedKind::Service => ("v1", "Service", "services"),
            WatchedKind::KubernetesUpstream => (UPSTREAM_API_VERSION, UPSTREAM_KIND, "kubernetesupstreams"),
            WatchedKind::Policy(kind) => (POLICY_API_VERSION, kind.as_str(), kind.plural()),
        }
    }

    /// Whether objects of this kind are watched for the Gateway API.
    pub fn is_for_gateway_api(self) -> bool {
        Self::OF_GATEWAY_API.contains(&self)
    }

    /// Whether objects of this kind are attached to each other, by rules that look at many of them. Tenants write them.
    pub fn is_judged(self) -> bool {
        self.is_for_gateway_api() || matches!(self, WatchedKind::Policy(_))
    }

    /// Whether routes and listeners refer to objects of this kind, whose status is none of ours.
    pub fn is_referred_to(self) -> bool {
        matches!(self, WatchedKind::Namespace | WatchedKind::Service)
    }

    /// The objects of a Kubernetes, in all namespaces.
    pub fn api(self, client: Client) -> Api<DynamicObject> {
        Api::all_with(client, &self.resource())
    }

    /// The objects of a namespace; empty is that of cluster-scoped objects.
    pub fn api_in(self, client: Client, namespace: &str) -> Api<DynamicObject> {
        if namespace.is_empty() { self.api(client) } else { Api::namespaced_with(client, namespace, &self.resource()) }
    }

    fn resource(self) -> ApiResource {
        let (group, version) = self.api_version().split_once('/').unwrap_or(("", self.api_version()));
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, self.kind()), self.plural())
    }

    /// The label of Secrets to which these objects may refer; empty if they may refer to none.
    pub(super) fn secret_label(self) -> &'static str {
        match self {
            WatchedKind::UpstreamCluster => SECRET_LABEL,
            WatchedKind::GatewaySettings => SETTINGS_SECRET_LABEL,
            _ => "",
        }
    }

    /// Whether these objects may refer to Secrets.
    pub(super) fn has_secrets(self) -> bool {
        !self.secret_label().is_empty()
    }
}

/// An object of a kind, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind.
    pub kind: WatchedKind,
    /// `metadata.namespace`; empty of a cluster-scoped object.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object by its `namespace/name`, or its name if it is cluster-scoped.
    pub(super) fn of_path(kind: WatchedKind, path: &str) -> Self {
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key of an object without a namespace.
    pub fn cluster_scoped(kind: WatchedKind, name: impl Into<String>) -> Self {
        Self { kind, namespace: String::new(), name: name.into() }
    }
}

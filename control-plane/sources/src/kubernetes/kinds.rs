use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use portcullis_api::{
    CLUSTER_API_VERSION, CLUSTER_KIND, SECRET_LABEL, SETTINGS_API_VERSION, SETTINGS_KIND, SETTINGS_SECRET_LABEL,
};

/// A kind of objects that is watched, and that has a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchedKind {
    /// `UpstreamCluster`.
    UpstreamCluster,
    /// `GatewaySettings`.
    GatewaySettings,
}

impl WatchedKind {
    /// `apiVersion` of its objects.
    pub fn api_version(self) -> &'static str {
        match self {
            WatchedKind::UpstreamCluster => CLUSTER_API_VERSION,
            WatchedKind::GatewaySettings => SETTINGS_API_VERSION,
        }
    }

    /// `kind` of its objects.
    pub fn kind(self) -> &'static str {
        match self {
            WatchedKind::UpstreamCluster => CLUSTER_KIND,
            WatchedKind::GatewaySettings => SETTINGS_KIND,
        }
    }

    /// The name of the resource in paths and rights.
    pub fn plural(self) -> &'static str {
        match self {
            WatchedKind::UpstreamCluster => "upstreamclusters",
            WatchedKind::GatewaySettings => "gatewaysettings",
        }
    }

    /// The objects of a Kubernetes.
    pub fn api(self, client: Client) -> Api<DynamicObject> {
        let (group, version) = self.api_version().split_once('/').unwrap_or_default();
        let kind = GroupVersionKind::gvk(group, version, self.kind());
        Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, self.plural()))
    }

    /// The label of Secrets to which these objects may refer.
    pub(super) fn secret_label(self) -> &'static str {
        match self {
            WatchedKind::UpstreamCluster => SECRET_LABEL,
            WatchedKind::GatewaySettings => SETTINGS_SECRET_LABEL,
        }
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
    /// The key of an object without a namespace.
    pub fn cluster_scoped(kind: WatchedKind, name: impl Into<String>) -> Self {
        Self { kind, namespace: String::new(), name: name.into() }
    }
}

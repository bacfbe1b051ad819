use std::collections::BTreeMap;

use serde::Deserialize;

/// The fields of Kubernetes' `ObjectMeta` that the gateway reads; its other fields are allowed and ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The object's name; of an `UpstreamCluster`, the host name that it serves.
    pub name: String,
    /// Of a `KubernetesUpstream` or a policy; empty of other kinds, which are cluster-scoped.
    pub namespace: Option<String>,
    /// Set by a Kubernetes API server; files have none unless it is written there.
    pub uid: Option<String>,
    /// RFC 3339; decides between objects that claim the same name.
    pub creation_timestamp: Option<String>,
    /// Feature gates, and the name of the profile that is in effect.
    pub annotations: Option<BTreeMap<String, String>>,
}

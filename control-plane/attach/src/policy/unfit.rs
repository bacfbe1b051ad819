use portcullis_api::PolicyKind;

/// A policy of a door with which an `UpstreamCluster` or a `KubernetesUpstream` behind that would be refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnfitPolicy {
    /// The cluster; the key of an upstream.
    pub cluster: String,
    /// The policy's kind.
    pub kind: PolicyKind,
    /// Its namespace and name.
    pub policy: String,
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::secret::{PublicBytes, SecretBytes};

/// The label that a Secret must carry to be read at all. Its value is the name of the `UpstreamCluster` that may refer
/// to it, or empty where [`SHARED_ANNOTATION`] says which may.
pub const SECRET_LABEL: &str = "portcullis.dev/upstream-cluster";
/// The annotation that names, separated by commas, further `UpstreamCluster`s that may refer to a Secret: for Secrets
/// that several share, and for names that are too long for a label.
pub const SHARED_ANNOTATION: &str = "portcullis.dev/upstream-clusters";

/// The label that a Secret must carry for a `KubernetesUpstream` of its namespace to refer to it; its value is the object's name, or
/// empty where [`UPSTREAM_SHARED_ANNOTATION`] says which may. The author of such an object need not be allowed to read Secrets.
pub const UPSTREAM_SECRET_LABEL: &str = "portcullis.dev/kubernetes-upstream";
/// The annotation that names, separated by commas, further `KubernetesUpstreams` that may refer to a Secret.
pub const UPSTREAM_SHARED_ANNOTATION: &str = "portcullis.dev/kubernetes-upstreams";

/// The label that a Secret must carry for `GatewaySettings` in Kubernetes to refer to it; its value is their name.
pub const SETTINGS_SECRET_LABEL: &str = "portcullis.dev/gateway-settings";

/// The material by which references are resolved. `Debug` shows no content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReferencedData {
    /// Nothing: every reference is refused.
    #[default]
    None,
    /// Secrets of the control plane's own namespace that carry [`SECRET_LABEL`], by name; for `GatewaySettings` those that carry
    /// [`SETTINGS_SECRET_LABEL`].
    Secrets(Arc<BTreeMap<String, Arc<SecretData>>>),
    /// Files below the root of references, by the path in a reference; `None` is a file that cannot be read, for any reason.
    Files(Arc<BTreeMap<String, Option<SecretBytes>>>),
}

/// A Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretData {
    /// The names of the objects that may refer to it, all of one kind.
    pub owners: BTreeSet<String>,
    /// Its content by key.
    pub data: BTreeMap<String, SecretBytes>,
}

/// The content of an upstream's references, as it was read. A reference that is not set has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamMaterial {
    /// The CAs of the servers, PEM.
    pub upstream_ca: PublicBytes,
    /// The CAs of client certificates, PEM.
    pub client_ca: PublicBytes,
    /// The gateway's client certificate, PEM.
    pub certificate: PublicBytes,
    /// Its key, PEM.
    pub key: SecretBytes,
    /// The gateway's token.
    pub token: SecretBytes,
}

impl ReferencedData {
    /// These Secrets, by name.
    pub fn secrets(all: impl IntoIterator<Item = (String, SecretData)>) -> Self {
        Self::Secrets(Arc::new(all.into_iter().map(|(name, secret)| (name, Arc::new(secret))).collect()))
    }

    /// These files, by the path in a reference.
    pub fn files(all: impl IntoIterator<Item = (String, Option<SecretBytes>)>) -> Self {
        Self::Files(Arc::new(all.into_iter().collect()))
    }

    /// Whether this is certainly the other one. Files may have been read anew.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Secrets(one), Self::Secrets(other)) => Arc::ptr_eq(one, other),
            (Self::Files(one), Self::Files(other)) => one == other,
            _ => false,
        }
    }
}

impl SecretData {
    /// The clusters that may refer to a Secret with this value of [`SECRET_LABEL`] and of [`SHARED_ANNOTATION`].
    pub fn owners_of(label: &str, annotation: Option<&str>) -> BTreeSet<String> {
        let shared = annotation.unwrap_or_default().split(',');
        shared.chain([label]).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

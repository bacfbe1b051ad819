use portcullis_api::Problem;
use portcullis_core::CompileError;

use crate::read_manifests::ManifestError;

/// Why the clusters cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error(transparent)]
    Manifests(#[from] ManifestError),
    #[error("no UpstreamCluster is among the files")]
    NoCluster,
    #[error("UpstreamCluster {0}: {1}")]
    Cluster(String, Problem),
    #[error("the GatewaySettings cannot be used: {0}")]
    Settings(String),
    #[error("Instance {0}: {1}")]
    Instance(String, Problem),
    #[error("UpstreamCluster {0}")]
    Compile(String, #[source] CompileError),
    #[error("the gateway's own configuration")]
    Gateway(#[source] CompileError),
}

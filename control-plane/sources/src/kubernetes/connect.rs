use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// A Kubernetes API, and as whom it is asked.
#[derive(Clone)]
pub struct KubernetesAccess {
    /// The client.
    pub client: Client,
    /// The control plane's own namespace: its Secrets and its Lease stand there.
    pub namespace: String,
}

/// Why the Kubernetes API cannot be asked. The operator has to act.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// The process does not run in a pod with a service account.
    #[error("there is no kubeconfig, and no service account of a pod either")]
    InCluster(#[from] InClusterError),
    /// No namespace is known.
    #[error("the control plane's namespace is not told")]
    Namespace,
    /// The client cannot be made of this configuration.
    #[error("cannot make a client")]
    Client(#[source] Box<kube::Error>),
}

/// Reads how the API is reached: from a kubeconfig, or from the pod's service account. Nothing is asked yet.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(kubeconfig: Option<&Path>, namespace: Option<&str>) -> Result<KubernetesAccess, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => from_file(path).await?,
        None => Config::incluster()?,
    };
    config.connect_timeout = Some(CONNECT);
    let namespace = match namespace {
        Some(namespace) => namespace.to_owned(),
        // A kubeconfig's default may be anything; a pod's is its own.
        None if kubeconfig.is_none() => config.default_namespace.clone(),
        None => return Err(ConnectError::Namespace),
    };
    let client = Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))?;
    Ok(KubernetesAccess { client, namespace })
}

async fn from_file(path: &Path) -> Result<Config, ConnectError> {
    let failed = |source| ConnectError::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)
}

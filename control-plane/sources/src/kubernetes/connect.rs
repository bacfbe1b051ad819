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
    /// The control plane's own namespace, with its Secrets and its Lease.
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
    /// A context is named, and nothing that has contexts.
    #[error("a context needs a kubeconfig")]
    Context,
    /// No namespace is known.
    #[error("the control plane's namespace is not known")]
    Namespace,
    /// The client cannot be made of this configuration.
    #[error("cannot make a client")]
    Client(#[source] Box<kube::Error>),
}

/// Reads how the API is reached: from a kubeconfig and a context of it, from the files that `KUBECONFIG` names, or from the
/// pod's service account. Nothing is asked yet.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    namespace: Option<&str>,
) -> Result<KubernetesAccess, ConnectError> {
    let kubeconfig = read(kubeconfig)?;
    let is_pod = kubeconfig.is_none();
    let mut config = match kubeconfig {
        Some((path, kubeconfig)) => {
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            config.map_err(|source| ConnectError::Kubeconfig { path, source: Box::new(source) })?
        }
        None if context.is_some() => return Err(ConnectError::Context),
        None => Config::incluster()?,
    };
    config.connect_timeout = Some(CONNECT);
    let namespace = match namespace {
        Some(namespace) => namespace.to_owned(),
        // A kubeconfig's default may be anything; a pod's is its own.
        None if is_pod => config.default_namespace.clone(),
        None => return Err(ConnectError::Namespace),
    };
    let client = Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))?;
    Ok(KubernetesAccess { client, namespace })
}

/// The kubeconfig that is named, or those of `KUBECONFIG` merged; none if neither names one.
fn read(path: Option<&Path>) -> Result<Option<(PathBuf, Kubeconfig)>, ConnectError> {
    let (path, kubeconfig) = match path {
        Some(path) => (path.to_owned(), Kubeconfig::read_from(path).map(Some)),
        None => (PathBuf::from("$KUBECONFIG"), Kubeconfig::from_env()),
    };
    match kubeconfig {
        Ok(kubeconfig) => Ok(kubeconfig.map(|kubeconfig| (path, kubeconfig))),
        Err(source) => Err(ConnectError::Kubeconfig { path, source: Box::new(source) }),
    }
}

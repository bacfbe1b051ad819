use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::KubeconfigError;
use portcullis_api::Problem;

use crate::output::OutputError;
use crate::rbac::RbacError;
use crate::read_manifests::ManifestError;
use crate::runtime::RuntimeError;

/// A cluster that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one to put behind the gateway.
    Target,
    /// The one that stores UpstreamClusters.
    Store,
    /// The one behind the gateway, asked as the gateway.
    Gateway,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Target => "the cluster of --kubeconfig",
            Side::Store => "the store of UpstreamClusters",
            Side::Gateway => "the cluster, asked as the gateway",
        })
    }
}

/// Why an API gave no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("{message} ({code})")]
    Refused { code: u16, message: String },
    #[error("no answer")]
    Transport(#[source] Box<kube::Error>),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("the answer cannot be read")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the answer is not JSON")]
    Json(#[source] serde_json::Error),
    #[error("another object has its name now")]
    Replaced,
    #[error("the request cannot be built")]
    Build(#[source] hyper::http::Error),
}

/// The step that failed. [`OnboardError::advice`] names the person who has to act, and whether to repeat the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OnboardError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("cannot use the kubeconfig of {0}")]
    Kubeconfig(Side, #[source] Box<KubeconfigError>),
    #[error("the kubeconfig of {0} {1}")]
    Unverified(Side, &'static str),
    #[error("cannot make a client of {0}")]
    Client(Side, #[source] Box<kube::Error>),
    #[error("{step} failed in {side}")]
    Request { step: String, side: Side, source: ApiError },
    #[error("{0} has no {1}")]
    Lacks(Side, String),
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    #[error("cannot write {0}")]
    Write(PathBuf, #[source] io::Error),
    #[error("{0} is there with another content")]
    Edited(PathBuf),
    #[error("cannot make a key and a request for its certificate")]
    Key(#[from] rcgen::Error),
    #[error("CertificateSigningRequest {0}: {1}")]
    Unsigned(String, String),
    #[error("CertificateSigningRequest {0} has no certificate after {1:?}")]
    Unapproved(String, Duration),
    #[error("the certificates of {0} cannot be verified")]
    NoAuthority(Side),
    #[error("a front-proxy certificate is needed for RequestHeader")]
    NoFrontProxy,
    #[error("ClusterRoleBinding {0} is bound to {1}, and not to {2}")]
    OtherUser(&'static str, String, String),
    #[error("UpstreamCluster {0} has upstreamIdentity {1}")]
    OtherIdentity(String, String),
    #[error("UpstreamCluster {name} would be refused: {}", joined(.problems))]
    Object { name: String, problems: Vec<Problem> },
    #[error(transparent)]
    Rbac(#[from] RbacError),
    #[error(transparent)]
    Manifests(#[from] ManifestError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("keys are not printed on a terminal")]
    Terminal,
    #[error("nothing was deleted")]
    Unconfirmed,
}

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl OnboardError {
    /// The person who has to act, and whether to repeat the command.
    pub(crate) fn advice(&self) -> Option<String> {
        let text = match self {
            OnboardError::Request { side, source, .. } => return Some(source.advice(*side)),
            OnboardError::Kubeconfig(..) | OnboardError::Client(..) => {
                "correct the file, or name another one or another context; repeating alone does not help"
            }
            OnboardError::Unverified(..) => {
                "another could answer in the cluster's place, and take keys or give a false CA: name a kubeconfig with https and \
                 the CA of the servers (certificate-authority)"
            }
            OnboardError::Lacks(Side::Store, _) => "make it there, or name another store; then repeat the command",
            OnboardError::Lacks(..) => "give it on the command line",
            OnboardError::Edited(_) => "--force-conflicts replaces it; keep your changes elsewhere before",
            OnboardError::Unsigned(..) => "ask those who approve and sign in that cluster, then repeat the command",
            OnboardError::Unapproved(..) => {
                "the key is forgotten, so an approval comes too late: repeat the command with a longer --approval-timeout; \
                 without any progress after an approval the cluster's signer (kube-controller-manager) does not run"
            }
            OnboardError::NoAuthority(_) => "name the CAs of the servers' certificates with --upstream-ca",
            OnboardError::NoFrontProxy => {
                "no signer of Kubernetes issues one: give --client-cert and --client-key, signed by the CA of the servers' \
                 --requestheader-client-ca-file, with a common name of --requestheader-allowed-names"
            }
            OnboardError::OtherIdentity(..) => {
                "repeat the command with that --upstream-identity, or delete the object first"
            }
            OnboardError::OtherUser(..) => {
                "another gateway may come as that user: --user keeps it, --force-conflicts takes its rights away"
            }
            OnboardError::Object { .. } => "correct the arguments; repeating alone does not help",
            OnboardError::Terminal => "redirect standard output into a file or a pipe",
            OnboardError::Unconfirmed => "confirm with --yes, or look first with --dry-run",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl ApiError {
    fn advice(&self, side: Side) -> String {
        match self {
            ApiError::Refused { code: 401, .. } => {
                format!("the credential for {side} is not accepted: renew it; repeating alone does not help")
            }
            ApiError::Refused { code: 403, .. } => {
                format!(
                    "the user of the kubeconfig for {side} lacks this right: a cluster admin has it; repeating alone does not help"
                )
            }
            ApiError::Refused { code: 404, .. } => {
                format!(
                    "{side} has no such kind or namespace: is it the right context? (`portcullis crd` prints the definition)"
                )
            }
            ApiError::Refused { code: 409, .. } => {
                "another manager owns these fields: --force-conflicts takes them over".to_owned()
            }
            ApiError::Refused { code: 400 | 422, .. } => {
                "the server refuses the content: correct the arguments; repeating alone does not help".to_owned()
            }
            ApiError::Refused { .. } => format!("{side} is in trouble: repeat the command later"),
            ApiError::Replaced => "it was made anew meanwhile: repeat the command, and look at it first".to_owned(),
            _ => format!(
                "{side} does not answer from this machine: check address, network and CA, then repeat the command"
            ),
        }
    }
}

/// An error with all its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some errors print their source themselves.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    crate::display_text::one_line(&text)
}

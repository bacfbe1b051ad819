use std::path::PathBuf;

use clap::Args;

/// Write the objects of a store into a file: UpstreamClusters, GatewaySettings and Instances with their status, and the Secrets that
/// are theirs.
///
///   portcullis backup --kubeconfig admin.kubeconfig --to portcullis-$(date -I).json
///
/// The file has mode 0600; protect it like the keys in it. Roles, bindings and everything else of the store is not in it:
/// `portcullis init --apply` makes that anew, and a snapshot of etcd has it all (docs/back-up.md).
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Backup {
    #[command(flatten)]
    pub(super) store: StoreAccess,
    /// The file, which is replaced in one step.
    #[arg(long, value_name = "FILE")]
    pub(super) to: PathBuf,
}

/// Apply the objects of a backup to a store, the oldest first, with the status that they had.
///
///   portcullis restore --kubeconfig admin.kubeconfig --from portcullis-2026-11-24.json
///
/// Objects that are not in the backup stay. Stop the control planes before, so that none decides about names while a part of
/// the objects is there; gateways keep their configuration.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Restore {
    #[command(flatten)]
    pub(super) store: StoreAccess,
    /// The file.
    #[arg(long, value_name = "FILE")]
    pub(super) from: PathBuf,
}

/// The Kubernetes API that stores the objects.
#[derive(Debug, Args)]
pub(super) struct StoreAccess {
    /// How it is reached; what KUBECONFIG names if unset, and without that the pod's service account.
    #[arg(long, env = "PORTCULLIS_KUBECONFIG", value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The control plane's namespace, where the Secrets are.
    #[arg(long, env = "PORTCULLIS_NAMESPACE", value_name = "NAMESPACE", default_value = "portcullis")]
    pub(super) namespace: String,
}

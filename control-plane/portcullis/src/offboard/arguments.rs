use std::path::PathBuf;

use clap::Args;

use crate::onboard::{StoreArguments, TargetArguments, host_name};

/// Take a cluster away from the gateway: undo what `portcullis onboard` made.
///
/// It lists what it would delete, and asks: the UpstreamCluster and its Secrets in the store (or the files of --output-dir),
/// and in the cluster of --kubeconfig the gateway's role and binding, its service account and CertificateSigningRequests.
/// Objects that `portcullis onboard` did not make, or that others have edited, are left, and named; with an UpstreamCluster
/// that is left its Secrets stay, too. Role, binding and service account are deleted if the UpstreamCluster is found, goes, and
/// no other UpstreamCluster there has one of the same servers. Otherwise they stay, with the reason; --rights deletes them.
///
///   portcullis offboard --name prod.example.com --store-context gateways --kubeconfig prod.kubeconfig --dry-run
///   portcullis offboard --name prod.example.com --store-context gateways --kubeconfig prod.kubeconfig --yes
///
/// A client certificate cannot be revoked in Kubernetes: until it ends its user may authenticate, without any right.
///
/// Exit: 0 if all of it is gone, 1 if a step failed or was not confirmed, 2 for a wrong command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Offboard {
    /// The UpstreamCluster.
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// The directory into which `portcullis onboard --output-dir` wrote.
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present_any = ["store_kubeconfig", "store_context", "kubeconfig", "context"],
    )]
    pub(crate) output_dir: Option<PathBuf>,
    /// Delete the gateway's role, binding and service account in the cluster even if another UpstreamCluster may need them.
    #[arg(long)]
    pub(crate) rights: bool,
    /// Delete without a question.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// List what would be deleted, and delete nothing.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

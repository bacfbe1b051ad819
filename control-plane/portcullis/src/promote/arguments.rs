use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Print what makes a shadow decide: an UpstreamCluster's policies of `mode: Shadow`, or its `spec.portcullis.shadow`.
///
/// The answer is a JSON merge patch, or with -o the whole object. Nothing is changed:
///
///   kubectl patch upstreamcluster prod.example.com --type merge -p "$(portcullis promote prod.example.com)"
///   portcullis promote prod.example.com -f clusters/ -o yaml > clusters/prod.yaml
///
/// Without -f the object is read from the cluster that stores it, and the patch has its resourceVersion: an edit in between makes
/// kubectl fail with a conflict.
///
/// A policy of a kind of its own that decides (DispatchPolicy, FlowControlPolicy) would go on to decide: nothing is printed, and the
/// message names the policy to edit. Such policies are those among the files of -f; else those that the object's status names.
///
/// Exit: 0, or 1 if the object has no shadow, cannot be read, or with what the shadow has would be refused or not decide, 2 for a wrong
/// command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Promote {
    /// The UpstreamCluster.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Manifest, or directory of *.yaml, *.yml and *.json files; may be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) files: Vec<PathBuf>,
    /// The kubeconfig of the cluster that stores the object; if unset what KUBECONFIG names, or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Its context; the current one if unset.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The control plane's own namespace: a policy there decides, and a ReferenceGrant there lets others tighten. With -f only.
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis", requires = "files")]
    pub(crate) namespace: String,
    /// How it is printed.
    #[arg(short = 'o', long, value_enum, default_value_t = PromoteOutput::Patch)]
    pub(crate) output: PromoteOutput,
}

/// How a promotion is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PromoteOutput {
    /// A JSON merge patch, one line.
    Patch,
    /// The object.
    Yaml,
    /// The same.
    Json,
}

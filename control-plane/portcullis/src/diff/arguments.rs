use std::path::PathBuf;

use clap::Args;

use crate::replay::ReplayOutput;

/// Compare two sets of objects: which requests they judge differently, with an example of each, and what else changes.
///
/// All requests that the policies and access lists can distinguish are compared, without a list of them: wherever another
/// policy decides, or the same one by other servers, another flow control schema or another refusal, there is one example, as a
/// call of `portcullis explain`. A policy that only moved, and decides the same, is no difference. Changes of other fields are
/// listed. It connects to nothing.
///
///   portcullis diff -f old/ --with new/
///   kubectl get upstreamclusters,gatewaysettings -o yaml > now.yaml; portcullis diff -f now.yaml --with new/
///   portcullis diff -f old/ --with new/ -n prod.example.com -o json | jq '.clusters[].differences[].explain'
///
/// Files of one flag belong together, as with every command: several -f are the old objects, several --with the new ones.
/// Compared are requests of users whose memberships are free, except that all but system:anonymous are in
/// system:authenticated. A request that impersonates is judged as one of the user whom it acts as; access lists and protected
/// identities are asked for both users. A `until` of an access list is compared with the present time, and entries that end later
/// are listed with their time.
///
/// Each cluster is judged by the GatewaySettings of its Instance, if the files have both, and also behind each HTTPRoute with
/// policies at it, its listener or its Gateway: "prod.example.com by HTTPRoute team-a/web at listener https of Gateway infra/edge".
///
/// Exit: 0 if nothing differs, 1 if a request is judged differently, a field changes or a part was too large to compare, 2 if
/// something cannot be read.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Diff {
    /// The old objects: manifest, or directory of *.yaml, *.yml and *.json files; may be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR", required = true)]
    pub(super) old: Vec<PathBuf>,
    /// The new objects; may be repeated.
    #[arg(long = "with", value_name = "FILE_OR_DIR", required = true)]
    pub(super) new: Vec<PathBuf>,
    /// Directory below which the old objects refer to files: another content behind the same reference is a change. Nothing of the
    /// content is printed. Secrets are read from the files of -f.
    #[arg(long, value_name = "DIR")]
    pub(super) references_root: Option<PathBuf>,
    /// The same of the new objects; Secrets are read from the files of --with.
    #[arg(long, value_name = "DIR")]
    pub(super) with_references_root: Option<PathBuf>,
    /// The control plane's own namespace: policies there decide, and those of others only tighten, with a ReferenceGrant there.
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis")]
    pub(super) namespace: String,
    /// The name of the GatewaySettings of all gateways, as for serve: those of other names are used by Instances that name them alone.
    #[arg(long, value_name = "NAME")]
    pub(super) settings_name: Option<String>,
    /// Compare this UpstreamCluster only; may be repeated.
    #[arg(short = 'n', long = "cluster", value_name = "NAME")]
    pub(super) clusters: Vec<String>,
    /// How many differences are printed for each cluster; the others are counted.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(super) show: usize,
    /// How the report is printed.
    #[arg(short = 'o', long, value_enum, default_value_t = ReplayOutput::Text)]
    pub(super) output: ReplayOutput,
}

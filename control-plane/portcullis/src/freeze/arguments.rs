use std::path::PathBuf;

use clap::Args;

use crate::onboard::host_name;

/// Close a cluster, or open it again step by step: put a profile in the place of its policies and limits.
///
/// For the time when a control plane drowns, for instance because all clients come back at once. The profiles that every
/// UpstreamCluster has, in the order of a reopening; others are in its spec.portcullis.profiles:
///
///   frozen       every new request is answered 429; open watches and sessions go on
///   heartbeats   nodes renew their leases and status, operators do everything, all others get 429
///   trickle      controllers, nodes and all others come in as well, at a rate
///
/// It sets the annotation portcullis.dev/profile, and nothing else: `portcullis thaw` ends it, and nothing has to be kept. First
/// it checks the object with the profile, and prints who is let in; with --dry-run that is all.
///
///   portcullis freeze prod.example.com
///   portcullis freeze prod.example.com --stage heartbeats --dry-run
///   portcullis freeze prod.example.com --stage trickle --kubeconfig store.kubeconfig
///   portcullis thaw prod.example.com
///
/// With --profiles-file it writes the file that `portcullis serve --profiles-file` reads, which goes before the annotation:
/// while the source of the objects is away, and for objects in files. Each control plane has a file of its own.
///
///   portcullis freeze prod.example.com --profiles-file /var/lib/portcullis/profiles.json -f manifests/
///
/// With -f the groups that are refused all the same are those that the GatewaySettings of the cluster's Instance protect, or those
/// of all gateways.
///
/// Exit: 0 if it is done, 1 if the object or the profile is not there or wrong, 2 for a wrong command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Freeze {
    /// The profile: frozen, heartbeats, trickle, or one of the object's own.
    #[arg(long, value_name = "PROFILE", default_value = "frozen")]
    pub(super) stage: String,
    #[command(flatten)]
    pub(super) object: ObjectArguments,
}

/// End a freeze: the policies and limits of the spec are in effect again.
///
///   portcullis thaw prod.example.com
///   portcullis thaw prod.example.com --profiles-file /var/lib/portcullis/profiles.json
///
/// It removes the annotation portcullis.dev/profile, or with --profiles-file the object's line of that file; then the
/// annotation decides, if there is one. All clients come back at once: `portcullis freeze --stage trickle` before.
///
/// Exit: 0 if it is done or was so before, 1 if it failed, 2 for a wrong command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Thaw {
    #[command(flatten)]
    pub(super) object: ObjectArguments,
    /// With --profiles-file: the spec is in effect even if the annotation names a profile.
    #[arg(long, requires = "profiles_file")]
    pub(super) ignore_annotation: bool,
}

/// The object, and the place of the name of its profile.
#[derive(Debug, Args)]
pub(super) struct ObjectArguments {
    /// The UpstreamCluster.
    #[arg(value_name = "NAME", value_parser = host_name)]
    pub(super) name: String,
    /// The kubeconfig of the cluster that stores UpstreamClusters; what KUBECONFIG names if unset, or ~/.kube/config.
    #[arg(long, value_name = "FILE", conflicts_with = "profiles_file")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Its context; the current one if unset.
    #[arg(long, value_name = "NAME", conflicts_with = "profiles_file")]
    pub(super) context: Option<String>,
    /// The file of `portcullis serve --profiles-file`, in the place of the annotation.
    #[arg(long, value_name = "FILE")]
    pub(super) profiles_file: Option<PathBuf>,
    /// With --profiles-file: file or directory with the object, and perhaps with GatewaySettings. Without it only built-in
    /// profiles can be named.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR", requires = "profiles_file")]
    pub(super) manifests: Option<PathBuf>,
    /// With -f: the name of the GatewaySettings of all gateways, as for serve: those of other names are used by Instances that name them
    /// alone.
    #[arg(long, value_name = "NAME", requires = "manifests")]
    pub(super) settings_name: Option<String>,
    /// Print who would be let in, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

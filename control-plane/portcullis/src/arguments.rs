//! Arguments of the commands that have no module of their own for them.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use clap_complete::Shell;

use crate::leader::LEASE_NAME;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Check objects: print every error and every likely mistake; exit with 1 if one is refused.
///
/// Every finding is one line, FILE:LINE:COLUMN: error or warning: FIELD: what is wrong (hint: what to do). An error is
/// refused by the gateway. A warning is accepted and yet probably a mistake: a policy that no request reaches, a rule that
/// never matches, entries without effect, requests that match no policy, certificates near their end, and everything that
/// means something else to KubeGateway's code (docs/kubegateway.md).
///
///   portcullis check -f cluster.yaml                      # one file; without GatewaySettings their defaults hold
///   portcullis check -f settings.yaml -f clusters/        # several, as the gateway would see them together
///   portcullis check --strict -R -f deploy/               # the directories below, too; warnings count
///   kubectl get upstreamclusters -o yaml | portcullis check -f -
///   portcullis check -f DIR --output json | jq '.[] | select(.severity == "error")'
///
/// Exit: 0 if nothing is refused (warnings count with --strict only), 1 if something is, cannot be read, or if there is no
/// object to check, 2 for a wrong command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Check {
    /// File, or directory of *.yaml, *.yml and *.json files; - reads standard input. May be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The same as -f DIR.
    #[arg(value_name = "DIR", required_unless_present = "files")]
    pub(crate) directory: Option<PathBuf>,
    /// Read the directories below those that are given, too; not those whose names begin with a dot, nor behind links.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Fail if there is a warning, too.
    #[arg(long)]
    pub(crate) strict: bool,
    /// How findings are printed: json is an array of {file, line, column, severity, kind, name, code, path, message,
    /// hint}.
    #[arg(short = 'o', long, value_enum, default_value_t = CheckOutput::Text)]
    pub(crate) output: CheckOutput,
    /// Directory below which the objects refer to files: these are judged, too. Without it, references are believed.
    #[arg(long, value_name = "DIR")]
    pub(crate) references_root: Option<PathBuf>,
    /// The control plane's own namespace: a ReferenceGrant there lets routes of the Gateway API refer to UpstreamClusters.
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis")]
    pub(crate) namespace: String,
    /// The name of the GatewaySettings of all gateways, as for serve: those of other names are used by Instances that name them alone.
    #[arg(long, value_name = "NAME")]
    pub(crate) settings_name: Option<String>,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CheckOutput {
    /// For people and editors.
    Text,
    /// For programs.
    Json,
}

/// Print the permissions that the gateway's own user needs in a cluster behind it, or the control plane in its own.
///
/// Apply it there:
///
///   portcullis rbac -f manifests/ --cluster prod.example.com --user system:portcullis | kubectl apply -f -
///   portcullis rbac --control-plane --namespace portcullis | kubectl apply -f -
///   portcullis rbac --control-plane --gateway-api --instances --policies | kubectl apply -f -
///   portcullis rbac --personas | kubectl apply -f -
///
/// Without -f it is what a cluster with default settings needs. With --control-plane it is what `portcullis serve
/// --source kubernetes` needs in the cluster that stores its objects; --gateway-api, --instances and --policies add what the
/// flags of `serve` of these names need. --instance is for a tenant of an Instance, --personas for those who write objects.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, group = ArgGroup::new("namespaced").args(["control_plane", "files"]).multiple(true))]
pub(crate) struct Rbac {
    /// Manifest, or directory of *.yaml, *.yml and *.json files; may be repeated.
    #[arg(short = 'f', long = "filename", alias = "file", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// How they are printed.
    #[arg(short = 'o', long, value_enum, default_value_t = ManifestOutput::Yaml)]
    pub(crate) output: ManifestOutput,
    /// The UpstreamCluster that it is for; all of the files' if unset.
    #[arg(long, value_name = "NAME", requires = "files")]
    pub(crate) cluster: Option<String>,
    /// The user of the client certificate or token: system:portcullis if unset, and with --control-plane the namespace's
    /// service account portcullis-control-plane.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Print the permissions of the tenant of an Instance, in the cluster that stores the objects: to read the Instance, and to edit
    /// those UpstreamClusters of the files that it alone selects, by their names. The files need all Instances. The user is the group
    /// portcullis:instance:NAME if unset.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cluster", "control_plane"])]
    pub(crate) instance: Option<String>,
    /// Print the permissions of the control plane in the cluster that stores its objects.
    #[arg(long, conflicts_with = "files")]
    pub(crate) control_plane: bool,
    /// With --control-plane or -f: the control plane's own namespace. Policies there decide, also about how servers learn the user.
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis", requires = "namespaced")]
    pub(crate) namespace: String,
    /// With -f: the name of the GatewaySettings of all gateways, as for serve: those of other names are used by Instances that name them
    /// alone.
    #[arg(long, value_name = "NAME", requires = "files")]
    pub(crate) settings_name: Option<String>,
    /// With --control-plane: the name of its Lease; that of the other one has -limits after it.
    #[arg(long, value_name = "NAME", default_value = LEASE_NAME, requires = "control_plane")]
    pub(crate) lease_name: String,
    /// With --control-plane: a namespace whose EndpointSlices it may read, for spec.portcullis.discovery.service; may be repeated.
    #[arg(long = "discovery-namespace", value_name = "NAMESPACE", requires = "control_plane")]
    pub(crate) discovery_namespaces: Vec<String>,
    /// With --control-plane: the permissions for serve --gateway-api, too.
    #[arg(long, requires = "control_plane")]
    pub(crate) gateway_api: bool,
    /// With --gateway-api: a namespace in which it may read Secrets and ConfigMaps by their names, for the certificates of Gateways
    /// and the credentials of KubernetesUpstreams; may be repeated. Without it none has one from there.
    #[arg(long = "gateway-secrets", value_name = "NAMESPACE", requires = "gateway_api")]
    pub(crate) gateway_secrets: Vec<String>,
    /// Print ClusterRoles for people who share gateways: portcullis-platform-admin, for a ClusterRoleBinding;
    /// portcullis-policy-admin, for a RoleBinding in the control plane's own namespace, where policies decide; and
    /// portcullis-gateway-operator and portcullis-tenant, for RoleBindings in their namespaces, where policies only tighten.
    #[arg(long, conflicts_with_all = ["files", "control_plane", "user"])]
    pub(crate) personas: bool,
    /// With --control-plane: the permissions for serve --instances, too.
    #[arg(long, requires = "control_plane")]
    pub(crate) instances: bool,
    /// With --control-plane: the permissions for serve --policies, too.
    #[arg(long, requires = "control_plane")]
    pub(crate) policies: bool,
}

/// Print the CustomResourceDefinitions of UpstreamCluster, GatewaySettings, Instance, KubernetesUpstream and policies, for a Kubernetes
/// that stores these objects.
///
///   portcullis crd | kubectl apply --server-side -f -
///
/// They refuse what is always wrong and accept all that `portcullis check` accepts; docs/reference lists the fields. `portcullis
/// serve --source kubernetes` reads the objects.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Crd {
    /// How they are printed.
    #[arg(short = 'o', long, value_enum, default_value_t = ManifestOutput::Yaml)]
    pub(crate) output: ManifestOutput,
}

/// How objects and answers are printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ManifestOutput {
    /// For people and repositories.
    Yaml,
    /// For programs.
    Json,
}

/// Print a completion script for a shell.
///
///   portcullis completion bash > /etc/bash_completion.d/portcullis
///   source <(portcullis completion zsh)
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Completion {
    /// The shell.
    pub(crate) shell: Shell,
}

/// Write the manual pages into a directory, for packages.
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct Man {
    /// The directory, which must exist.
    pub(crate) dir: PathBuf,
}

//! Arguments of the commands that have no module of their own for them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::Shell;
use portcullis_api::parse_duration;

use crate::serve::{LEASE_NAME, SourceArguments, StateArguments};

/// Serve Envoy over xDS, and follow every change of the objects.
///
///   portcullis serve --config DIR --xds-socket /run/portcullis/xds.sock
///   portcullis serve --source kubernetes --settings settings.yaml --xds-socket /run/portcullis/xds.sock
///
/// A bad object is left out and listed at /status; the others go on. A file that cannot be parsed keeps its last good
/// objects. Replace files by renaming a finished one into place. A Kubernetes API that does not answer keeps its last
/// objects, too; /status shows since when.
///
/// HTTP: / (a page for people), /status (the same as JSON: objects with their conditions, Envoys and what each of them has
/// acknowledged; no secrets), /healthz (the objects are followed), /readyz (something is served), /metrics
/// (docs/reference/control-plane-metrics.md).
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) state: StateArguments,
    #[command(flatten)]
    pub(crate) xds: crate::serve::XdsArguments,
    /// How long an object is served with the keys it had, after the Secret or file that it refers to is revoked (deleted);
    /// 0s ends that at once. A restart ends it, too.
    #[arg(
        long,
        env = "PORTCULLIS_REVOKED_REFERENCE_GRACE",
        value_name = "DURATION",
        value_parser = parse_duration,
        default_value = "24h",
    )]
    pub(crate) revoked_reference_grace: Duration,
    /// Address of /healthz, /readyz, /metrics and /status; port 0 takes a free one. Every client that can connect may read.
    #[arg(long, env = "PORTCULLIS_HTTP_ADDRESS", value_name = "ADDR", default_value = "127.0.0.1:9080")]
    pub(crate) http_address: SocketAddr,
    /// A host name under which the status may be asked for, beside IP addresses and localhost; may be repeated. Other
    /// names are refused, because a page in a browser could make its own name lead here.
    #[arg(long = "http-host", env = "PORTCULLIS_HTTP_HOSTS", value_name = "NAME", value_delimiter = ',')]
    pub(crate) http_hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) tracing: crate::serve::TracingArguments,
    /// How the log is written, on standard error; RUST_LOG says how much of it.
    #[arg(long, env = "PORTCULLIS_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Print the bootstrap with which Envoy finds this control plane (JSON).
#[derive(Debug, Args)]
pub(crate) struct Bootstrap {
    /// The socket of `portcullis serve`. Given several times, these are replicas: Envoy follows one of them, and goes to
    /// another if that one ends.
    #[arg(long, env = "PORTCULLIS_XDS_SOCKET", value_name = "PATH", required_unless_present = "xds_address")]
    pub(crate) xds_socket: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) network: crate::bootstrap::Network,
    /// Envoy's own admin interface. It is not protected: keep it on loopback.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9901")]
    pub(crate) admin_address: SocketAddr,
    /// How this Envoy is called in /status. With --xds-address it must be a name in the certificate.
    #[arg(long, value_name = "ID", default_value = "envoy")]
    pub(crate) node_id: String,
    /// The zone of this Envoy: it prefers servers of the same one (spec.portcullis.servers[].zone).
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Most client connections at a time.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(crate) max_downstream_connections: u64,
    /// Most memory that Envoy's heap may take, MiB. Near it Envoy resets the streams that hold most, then answers requests
    /// with 503, then takes no connections. Without it `portcullis agent` takes nine tenths of its cgroup's limit, if there
    /// is one, and `portcullis bootstrap` sets no bound.
    #[arg(long, env = "PORTCULLIS_MAX_HEAP_MIB", value_name = "N", value_parser = clap::value_parser!(u64).range(64..))]
    pub(crate) max_heap_mib: Option<u64>,
    /// The configuration version that this Envoy's filter reads: that of this release, if the filter is of this release.
    #[arg(long, value_name = "VERSION", default_value_t = portcullis_filter_config::CONFIG_VERSION)]
    pub(crate) config_version: u32,
    /// Which build of the filter this Envoy runs: the dynamic module, or portcullis.wasm at wasmModulePath of the GatewaySettings.
    #[arg(long, value_enum, value_name = "BUILD", default_value_t = FilterBuild::Module)]
    pub(crate) filter: FilterBuild,
}

/// Builds of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilterBuild {
    /// libportcullis.so.
    Module,
    /// portcullis.wasm.
    Wasm,
}

impl Bootstrap {
    /// The bound of Envoy's heap that is asked for, bytes.
    pub(crate) fn max_heap(&self) -> Option<u64> {
        self.max_heap_mib.map(|mib| mib.saturating_mul(1024 * 1024))
    }
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
///
/// Without -f it is what a cluster with default settings needs. With --control-plane it is what `portcullis serve
/// --source kubernetes` needs in the cluster that stores its objects.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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
    /// Print the permissions of the control plane in the cluster that stores its objects.
    #[arg(long, conflicts_with = "files")]
    pub(crate) control_plane: bool,
    /// With --control-plane: the control plane's own namespace.
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis", requires = "control_plane")]
    pub(crate) namespace: String,
    /// With --control-plane: the name of its Lease.
    #[arg(long, value_name = "NAME", default_value = LEASE_NAME, requires = "control_plane")]
    pub(crate) lease_name: String,
}

/// Print the CustomResourceDefinition of UpstreamCluster, for a Kubernetes that stores these objects.
///
///   portcullis crd | kubectl apply --server-side -f -
///
/// It refuses what is always wrong and accepts all that `portcullis check` accepts; docs/reference/upstreamcluster.md lists its
/// fields. `portcullis serve --source kubernetes` reads them.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Crd {
    /// How it is printed.
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

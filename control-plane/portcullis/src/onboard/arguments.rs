use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, ValueEnum};
use portcullis_api::parse_duration;

use crate::arguments::ManifestOutput;

/// Put a cluster behind the gateway: rights, certificate or token, Secrets, UpstreamCluster; then ask it as the gateway.
///
/// It asks the cluster of --kubeconfig, as that file's user, for everything that the gateway needs there: it applies what
/// `portcullis rbac` prints for the object, gets a client certificate by a CertificateSigningRequest (or a service account's
/// token), and takes servers and CAs from there. The outcome goes to the cluster that stores UpstreamClusters, to standard
/// output, or into a directory. Then it asks each server as the gateway will, from this machine, and prints a line for each
/// thing that has to work.
///
///   portcullis onboard --kubeconfig prod.kubeconfig --name prod.example.com --store-context gateways
///   portcullis onboard --kubeconfig prod.kubeconfig --name prod.example.com --output-dir config
///   portcullis onboard --kubeconfig prod.kubeconfig --name prod.example.com -o yaml | age -r age1... > prod.age
///   portcullis onboard --kubeconfig prod.kubeconfig --name prod.example.com --token --store-context gateways
///   portcullis onboard --name prod.example.com --check --store-context gateways
///
/// A second run changes nothing that is good, but with --token it asks for a new token. Keys are never printed on a terminal.
/// With --upstream-identity RequestHeader the front-proxy certificate comes from files (--client-cert, --client-key): no
/// signer of Kubernetes issues one.
///
/// Exit: 0 if everything is done and every check is good, 1 if a step or a check failed, 2 for a wrong command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Onboard {
    /// The host name under which clients reach the cluster; it is the UpstreamCluster's name.
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Print Secrets and UpstreamCluster, to a file or pipe only: there are keys in them.
    #[arg(short = 'o', long, value_enum)]
    pub(crate) output: Option<ManifestOutput>,
    /// Write the UpstreamCluster to DIR/NAME.yaml, and certificates and keys below DIR/references, for `portcullis serve
    /// --config DIR --references-root DIR/references`.
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) credential: CredentialArguments,
    #[command(flatten)]
    pub(crate) servers: ServerArguments,
    /// The gateway's certificate for NAME, PEM; if unset, that of an earlier run, or the default certificate of the gateway.
    #[arg(long, value_name = "FILE", requires = "serving_key")]
    pub(crate) serving_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "serving_cert")]
    pub(crate) serving_key: Option<PathBuf>,
    /// The CAs of users' client certificates, PEM; if unset, those that the cluster itself accepts.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Take over fields of objects that another manager owns, and replace a DIR/NAME.yaml that was edited.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// Print what would be done, and change nothing.
    #[arg(long, conflicts_with = "check")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) probe: ProbeArguments,
}

/// The command, for errors of its usage.
#[derive(Debug, clap::Parser)]
#[command(name = "portcullis onboard")]
struct Usage {
    #[command(flatten)]
    _onboard: Onboard,
}

impl Onboard {
    /// Exactly one place for the outcome, or for the object to check.
    pub(super) fn check_usage(&self) -> Result<(), ExitCode> {
        let (store, print, dir) = (self.store.is_given(), self.output.is_some(), self.output_dir.is_some());
        let places = [store, print, dir].iter().filter(|is_given| **is_given).count();
        let fault = match self.probe.check {
            true if print || dir => "-o and --output-dir are not for --check",
            true if store != self.probe.files.is_empty() => {
                "--check needs the object: from the store (--store-kubeconfig, --store-context), or from files (-f)"
            }
            false if places != 1 => {
                "one place for the outcome is needed: the store (--store-kubeconfig, --store-context), -o, or --output-dir"
            }
            _ => return Ok(()),
        };
        let kind = if places > 1 { ErrorKind::ArgumentConflict } else { ErrorKind::MissingRequiredArgument };
        // Its exit code is that of each other wrong command line.
        let error = Usage::command().error(kind, fault);
        let _ = error.print();
        Err(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)))
    }
}

/// The cluster to put behind the gateway.
#[derive(Debug, Args)]
pub(crate) struct TargetArguments {
    /// The kubeconfig of the cluster to put behind the gateway; what KUBECONFIG names if unset, or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Its context; the current one if unset.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// The cluster that stores UpstreamClusters.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// The kubeconfig of the cluster that stores UpstreamClusters; with --store-context alone what KUBECONFIG names, or
    /// ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) store_kubeconfig: Option<PathBuf>,
    /// Its context; the current one if unset.
    #[arg(long, value_name = "NAME")]
    pub(crate) store_context: Option<String>,
    /// The control plane's own namespace there, for Secrets.
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis")]
    pub(crate) namespace: String,
}

impl StoreArguments {
    pub(crate) fn is_given(&self) -> bool {
        self.store_kubeconfig.is_some() || self.store_context.is_some()
    }
}

/// The gateway's credential for the cluster.
#[derive(Debug, Args)]
pub(crate) struct CredentialArguments {
    /// How the servers learn who sends a request; Impersonate if unset.
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) upstream_identity: Option<IdentityMode>,
    /// The gateway's own user: system:portcullis if unset, with --token the service account, and with files the user whom the
    /// cluster sees.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Take a token of a service account, by TokenRequest, in place of a certificate.
    #[arg(long, conflicts_with_all = ["client_cert", "token_file"])]
    pub(crate) token: bool,
    /// With --token: the service account, which is made if it is not there.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/portcullis", value_parser = service_account)]
    pub(crate) service_account: (String, String),
    /// Take the token in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "client_cert")]
    pub(crate) token_file: Option<PathBuf>,
    /// Take this client certificate, PEM: in RequestHeader mode the front-proxy certificate.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,
    /// How long the certificate or token is to be valid; the cluster may shorten it. Unset: as long as the signer likes, and
    /// a year for a token.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) lifetime: Option<Duration>,
    /// Get a new certificate although the present one is good.
    #[arg(long)]
    pub(crate) renew: bool,
    /// Leave the approval of the CertificateSigningRequest to another person, even if this user may approve it.
    #[arg(long)]
    pub(crate) no_approve: bool,
    /// How long an approval and its certificate are waited for.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
    pub(crate) approval_timeout: Duration,
}

/// The kube-apiservers.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// A kube-apiserver, https://HOST:PORT, as the gateway reaches it; may be repeated.
    #[arg(long = "server", value_name = "URL", conflicts_with = "servers_from")]
    pub(crate) servers: Vec<String>,
    /// The source of the servers' addresses, without --server.
    #[arg(long, value_enum, default_value_t = ServerSource::Kubeconfig)]
    pub(crate) servers_from: ServerSource,
    /// The name in the servers' certificates; if unset, that of the kubeconfig, and kubernetes.default.svc with
    /// --servers-from endpoints.
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// The CAs of the servers' certificates, PEM; those of the kubeconfig if unset.
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca: Option<PathBuf>,
}

/// The last part: questions as the gateway.
#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// Only ask the cluster as the gateway, for an UpstreamCluster that exists: in the store, or in files (-f).
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: manifest, or directory of *.yaml, *.yml and *.json files; may be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR", requires = "check")]
    pub(crate) files: Vec<PathBuf>,
    /// With -f: the directory below which the objects refer to files.
    #[arg(long, value_name = "DIR", requires = "files")]
    pub(crate) references_root: Option<PathBuf>,
    /// The user whom the gateway forwards to see whether the servers believe it. Nothing is done in this name but to ask who it
    /// is.
    #[arg(long, value_name = "NAME", default_value = "portcullis-probe")]
    pub(crate) probe_user: String,
}

/// How the servers learn who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdentityMode {
    /// By Impersonate-* headers.
    #[value(name = "Impersonate")]
    Impersonate,
    /// By the headers of an authenticating proxy.
    #[value(name = "RequestHeader")]
    RequestHeader,
}

impl IdentityMode {
    /// As spec.portcullis.upstreamIdentity has it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            IdentityMode::Impersonate => "Impersonate",
            IdentityMode::RequestHeader => "RequestHeader",
        }
    }
}

/// The source of the servers' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerSource {
    /// The one server of the kubeconfig, which may be a load balancer.
    Kubeconfig,
    /// Each server behind the Service default/kubernetes; the gateway must reach these addresses.
    Endpoints,
}

/// A name that is safe in paths; whether it may be served is checked with the object.
pub(crate) fn host_name(text: &str) -> Result<String, String> {
    let is_plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || matches!(one, '-' | '.');
    if text.is_empty() || text.starts_with(['.', '-']) || !text.chars().all(is_plain) {
        return Err("must be a host name, in lower case".to_owned());
    }
    Ok(text.to_owned())
}

fn service_account(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("must be NAMESPACE/NAME".to_owned()),
    }
}

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_api::parse_duration;

use super::forget::Forgotten;
use super::member::Member;
use super::release::Release;
use super::tenant::Tenant;

/// Lay out a store for the objects where there is no Kubernetes for them: an upstream kube-apiserver on etcd, without a cluster.
///
///   portcullis init --data-dir /var/lib/portcullis-store     # CAs, certificates, keys, configuration, start scripts, units
///   /var/lib/portcullis-store/members/local/start/etcd &
///   /var/lib/portcullis-store/members/local/start/kube-apiserver &
///   portcullis init --data-dir /var/lib/portcullis-store --apply
///   export KUBECONFIG=/var/lib/portcullis-store/admin.kubeconfig
///
/// It starts nothing. A second run changes nothing but what is missing, what other flags ask for, and certificates that end
/// within 90 days: they keep their subjects and CAs, and running servers read them without a restart. Flags are remembered in
/// DIR/store.json until they have another value, or --forget. With --apply it waits for the kube-apiserver, and applies the definition, the namespace, roles for people
/// and the control plane, and policies that refuse objects which would wait forever for a controller (docs/store.md).
///
/// Three members are laid out by --member three times. Each directory DIR/members/NAME is for one host and holds no key of a
/// CA; copy it there, to --host-dir.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Init {
    /// Directory of the store; made with mode 0700. It holds the keys of the CAs.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: PathBuf,
    /// Wait for the kube-apiserver, and apply what it has to store.
    #[arg(long)]
    pub(super) apply: bool,
    /// With --apply: how long it is waited for.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "2m", requires = "apply")]
    pub(super) timeout: Duration,
    /// With --apply: delete roles, bindings and policies of earlier runs that no flag asks for any more.
    #[arg(long, requires = "apply")]
    pub(super) prune: bool,
    /// Forget a remembered flag before those of this run are taken: host-dir, server-name, kube-apiserver-flag, etcd-flag or
    /// tenant, all their values, or tenant=NAME. May be repeated. Their objects in the store go by --apply --prune.
    #[arg(long = "forget", value_name = "FLAG")]
    pub(super) forgotten: Vec<Forgotten>,
    /// Renew every certificate of a server and client now; the CAs stay.
    #[arg(long)]
    pub(super) renew: bool,
    /// The release of kube-apiserver, like 1.34, for which files are written; the program is asked if unset. Needed where the
    /// program is on other hosts only and is older than 1.34.
    #[arg(long, value_name = "VERSION")]
    pub(super) kube_apiserver_version: Option<Release>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// The flags that are remembered. One that is not given keeps its value of the last run.
#[derive(Debug, Default, Args)]
pub(super) struct StoreArguments {
    /// The etcd program; etcd in PATH if unset.
    #[arg(long, value_name = "PATH")]
    pub(super) etcd: Option<PathBuf>,
    /// The kube-apiserver program; kube-apiserver in PATH if unset.
    #[arg(long, value_name = "PATH")]
    pub(super) kube_apiserver: Option<PathBuf>,
    /// A member, NAME=HOST[,peer=PORT][,client=PORT][,api=PORT], or NAME=https://HOST:PEER_PORT; an etcd and a kube-apiserver
    /// run on each. Repeat it for three. Ports are 2380, 2379 and 6444 if unset. Without it, one member `local` at 127.0.0.1.
    #[arg(long = "member", value_name = "NAME=HOST")]
    pub(super) members: Vec<Member>,
    /// One more DNS name or IP address in the certificates of the kube-apiservers: a load balancer's. May be repeated.
    #[arg(long = "server-name", value_name = "NAME")]
    pub(super) server_names: Vec<String>,
    /// The directory of a member on its own host, for its units; the one here if unset.
    #[arg(long, value_name = "DIR")]
    pub(super) host_dir: Option<PathBuf>,
    /// The control plane's namespace; portcullis if unset.
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) namespace: Option<String>,
    /// One more flag of kube-apiserver, like --kube-apiserver-flag=--goaway-chance=0.001. May be repeated.
    #[arg(long = "kube-apiserver-flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub(super) kube_apiserver_flags: Vec<String>,
    /// One more flag of etcd, like --etcd-flag=--quota-backend-bytes=8589934592. May be repeated.
    #[arg(long = "etcd-flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub(super) etcd_flags: Vec<String>,
    /// A tenant and the UpstreamClusters that it may write, NAME=CLUSTER[,CLUSTER]; users of the group portcullis:tenant:NAME.
    /// May be repeated.
    #[arg(long = "tenant", value_name = "NAME=CLUSTERS")]
    pub(super) tenants: Vec<Tenant>,
}

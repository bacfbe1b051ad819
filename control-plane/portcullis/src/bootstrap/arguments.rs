use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::network::Network;
use crate::serve::{gateway_name, instance_name};

/// Print the bootstrap with which Envoy finds this control plane (JSON).
#[derive(Debug, Args)]
pub(crate) struct Bootstrap {
    /// The socket of `portcullis serve`. Given several times, these are replicas: Envoy follows one of them, and goes to
    /// another if that one ends.
    #[arg(long, env = "PORTCULLIS_XDS_SOCKET", value_name = "PATH", required_unless_present = "xds_address")]
    pub(crate) xds_socket: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Envoy's own admin interface. It is not protected: keep it on loopback.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9901")]
    pub(crate) admin_address: SocketAddr,
    /// How this Envoy is called in /status. With --xds-address it must be a name in the certificate.
    #[arg(long, value_name = "ID", default_value = "envoy")]
    pub(crate) node_id: String,
    /// The zone of this Envoy: it prefers servers of the same one (spec.portcullis.servers[].zone).
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// The Gateway of the Gateway API that this Envoy belongs to: it serves that one, and no UpstreamCluster of its own. With
    /// --xds-address its certificate must have the DNS name NAME.NAMESPACE.gateway.portcullis.dev.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_gateway)]
    pub(crate) gateway: Option<String>,
    /// An address by which clients reach this Envoy, for the status of a Gateway that asks for none. May be given several times,
    /// or as a list with commas, as Kubernetes has the addresses of a pod.
    #[arg(long, value_name = "IP", requires = "gateway", value_delimiter = ',')]
    pub(crate) gateway_address: Vec<IpAddr>,
    /// The Instance that this Envoy belongs to: it serves the UpstreamClusters of that one, and no others. With --xds-address its
    /// certificate must have the DNS name NAME.instance.portcullis.dev.
    #[arg(long, value_name = "NAME", value_parser = parse_instance, conflicts_with = "gateway")]
    pub(crate) instance: Option<String>,
    /// Most client connections at a time.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(crate) max_downstream_connections: u64,
    /// Most memory that Envoy's heap may take, MiB. Near it Envoy resets the streams that hold most, then answers requests
    /// with 503, then takes no connections. Without it `portcullis agent` takes nine tenths of its cgroup's limit, if there
    /// is one, and `portcullis bootstrap` sets no bound.
    #[arg(long, env = "PORTCULLIS_MAX_HEAP_MIB", value_name = "N", value_parser = clap::value_parser!(u64).range(64..))]
    max_heap_mib: Option<u64>,
    /// Let Envoy make every statistic that it has, and not only those that dashboards, alerts and the manual read: for an
    /// investigation. Each UpstreamCluster takes about 0.2 MiB more.
    #[arg(long)]
    pub(crate) all_envoy_statistics: bool,
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

fn parse_gateway(text: &str) -> Result<String, String> {
    gateway_name(text).map(|gateway| gateway.to_string()).ok_or_else(|| "must be NAMESPACE/NAME".to_owned())
}

fn parse_instance(text: &str) -> Result<String, String> {
    instance_name(text).map(str::to_owned).ok_or_else(|| "must be a DNS label".to_owned())
}

impl Bootstrap {
    /// The bound of Envoy's heap that is asked for, bytes.
    pub(crate) fn max_heap(&self) -> Option<u64> {
        self.max_heap_mib.map(|mib| mib.saturating_mul(1024 * 1024))
    }
}

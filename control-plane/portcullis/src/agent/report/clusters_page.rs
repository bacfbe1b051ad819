//! Envoy's page of Envoy clusters and their endpoints, as far as reports need it.

use std::net::{IpAddr, SocketAddr};

use portcullis_xds::UnhealthyReason;
use serde::Deserialize;

/// A name in a regular expression in a query. Names of ours hold letters, digits, `-`, `.` and `/`.
pub(super) fn escaped(name: &str) -> String {
    let known = name.chars().filter(|one| one.is_ascii_alphanumeric() || "-./".contains(*one));
    known.map(|one| if one == '.' { "%5C.".to_owned() } else { one.to_string() }).collect()
}

/// The answer to `/clusters?format=json` (`envoy.admin.v3.Clusters`), of which this is a part.
#[derive(Deserialize)]
pub(super) struct ClustersPage {
    #[serde(default)]
    pub(super) cluster_statuses: Vec<Pool>,
}

#[derive(Deserialize)]
pub(super) struct Pool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) host_statuses: Vec<Host>,
}

#[derive(Deserialize)]
pub(super) struct Host {
    #[serde(default)]
    address: Address,
    /// The host name of the server, if it has one.
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    pub(super) health_status: Flags,
    #[serde(default)]
    stats: Vec<Stat>,
}

/// `envoy.admin.v3.SimpleMetric`: a number of 64 bits is text, and 0 is left out.
#[derive(Deserialize)]
struct Stat {
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Default, Deserialize)]
struct Address {
    socket_address: Option<Socket>,
}

#[derive(Deserialize)]
struct Socket {
    address: String,
    port_value: u16,
}

/// `envoy.admin.v3.HostHealthStatus`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Flags {
    failed_active_health_check: bool,
    failed_outlier_check: bool,
    pending_active_hc: bool,
    active_hc_timeout: bool,
}

impl Flags {
    /// `None` for a server that is healthy, or that the control plane itself has taken out.
    pub(super) fn reason(&self) -> Option<UnhealthyReason> {
        match self {
            Self { pending_active_hc: true, .. } => Some(UnhealthyReason::NotChecked),
            Self { active_hc_timeout: true, .. } => Some(UnhealthyReason::HealthCheckTimedOut),
            Self { failed_active_health_check: true, .. } => Some(UnhealthyReason::HealthCheckFailed),
            Self { failed_outlier_check: true, .. } => Some(UnhealthyReason::Ejected),
            _ => None,
        }
    }
}

impl Host {
    /// As `UpstreamCluster` writes it.
    pub(super) fn server(&self) -> Option<String> {
        let Socket { address, port_value } = self.address.socket_address.as_ref()?;
        Some(match address.parse::<IpAddr>() {
            Ok(ip) if self.hostname.is_empty() => SocketAddr::new(ip, *port_value).to_string(),
            _ if self.hostname.is_empty() => format!("{address}:{port_value}"),
            _ => format!("{}:{port_value}", self.hostname),
        })
    }

    /// Requests that it has not answered to the end.
    pub(super) fn in_flight(&self) -> u32 {
        let gauge = self.stats.iter().find(|stat| stat.name == "rq_active");
        gauge.and_then(|stat| stat.value.parse().ok()).unwrap_or_default()
    }
}

//! Endpoints of a cluster as a gateway sees them.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::config::endpoint::v3::Endpoint;
use envoy_types::pb::envoy::service::health::v3::EndpointHealth;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

/// Endpoints of one cluster as one node sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// How many get requests.
    pub healthy: u32,
    /// How many there are.
    pub total: u32,
    /// Those that are not healthy, as far as they are named.
    pub unhealthy: Vec<UnhealthyServer>,
}

/// Members of the metadata.
const REASON: &str = "reason";
const SINCE: &str = "since";

/// Most servers that are kept of one cluster and node.
pub const MAX_UNHEALTHY_SERVERS: usize = 16;
/// Longest server that is kept: a DNS name with its port.
const MAX_SERVER: usize = 260;

/// A server that is not healthy, as a gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhealthyServer {
    /// Address or DNS name, and port.
    pub server: String,
    /// Why.
    pub reason: UnhealthyReason,
    /// When the gateway's agent saw it first, seconds since 1970.
    pub since: u64,
}

/// Why Envoy sends no requests to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnhealthyReason {
    /// Its health check is answered otherwise than it should be, or the connection fails.
    HealthCheckFailed,
    /// Its health check is not answered in time.
    HealthCheckTimedOut,
    /// Requests to it failed one after the other (outlier detection).
    Ejected,
    /// Its first health check has not ended.
    NotChecked,
}

impl UnhealthyReason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::HealthCheckFailed, Self::HealthCheckTimedOut, Self::Ejected, Self::NotChecked];

    /// One word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HealthCheckFailed => "HealthCheckFailed",
            Self::HealthCheckTimedOut => "HealthCheckTimedOut",
            Self::Ejected => "Ejected",
            Self::NotChecked => "NotChecked",
        }
    }
}

impl UnhealthyServer {
    /// As it travels.
    pub fn endpoint(&self) -> EndpointHealth {
        let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
        let fields = [(REASON, text(self.reason.as_str())), (SINCE, text(&self.since.to_string()))];
        EndpointHealth {
            endpoint: Some(Endpoint { hostname: self.server.clone(), ..Endpoint::default() }),
            health_status: HealthStatus::Unhealthy.into(),
            health_metadata: Some(Struct {
                fields: HashMap::from(fields.map(|(name, value)| (name.to_owned(), value))),
            }),
        }
    }

    /// The server that an endpoint names. `None` for any other endpoint, and for what no server is called.
    pub(super) fn from_report(report: &EndpointHealth) -> Option<Self> {
        let member = |name: &str| match &report.health_metadata.as_ref()?.fields.get(name)?.kind {
            Some(Kind::StringValue(text)) => Some(text.as_str()),
            _ => None,
        };
        let reason = member(REASON)?;
        let reason = UnhealthyReason::ALL.into_iter().find(|one| one.as_str() == reason)?;
        let since = member(SINCE)?.parse().ok()?;
        let server = &report.endpoint.as_ref()?.hostname;
        let is_server = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]%_".contains(&byte);
        let is_named = !server.is_empty() && server.len() <= MAX_SERVER && server.bytes().all(is_server);
        is_named.then(|| Self { server: server.clone(), reason, since })
    }
}

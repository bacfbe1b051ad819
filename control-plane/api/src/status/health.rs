use serde::{Deserialize, Serialize};

use super::Timestamp;

/// The endpoints of an object, as a gateway finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// How many take requests.
    pub healthy: u32,
    /// How many there are.
    pub total: u32,
    /// Those that take none, as far as the gateway names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy: Vec<UnhealthyServer>,
}

/// A server that gets no requests, as a gateway finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct UnhealthyServer {
    /// Address or DNS name, and port, as the object has it.
    pub server: String,
    /// `HealthCheckFailed`, `HealthCheckTimedOut`, `Ejected` or `NotChecked`.
    pub reason: String,
    /// When the gateway saw it first.
    pub since: Timestamp,
}

//! The clusters' manifests.

use portcullis_e2e::Manifest;
use portcullis_harness::certs::{Ca, Identity};
use serde_json::{Value, json};

use crate::case::others_rule;

/// Rules of a policy.
const RULES: u32 = 3;

/// The common material of all clusters.
pub(crate) struct Parts {
    pub(crate) servers: Vec<std::net::SocketAddr>,
    pub(crate) gateway: Identity,
    pub(crate) server_ca: Ca,
    pub(crate) serving: Identity,
    pub(crate) client_ca: Ca,
    pub(crate) policies: u32,
    /// Seconds between two checks of a server.
    pub(crate) check_interval: u32,
}

/// The host name of a cluster.
pub(crate) fn name(number: u32) -> String {
    format!("c{number:05}.scale.example.com")
}

impl Parts {
    /// A cluster whose last policy lets the benchmark's user read pods, or does not.
    pub(crate) fn manifest(&self, number: u32, allows: bool) -> Manifest {
        Manifest::new(&name(number), self.servers.iter().copied())
            .upstream(&self.gateway, &self.server_ca, "kubernetes")
            .serving(&self.serving, &self.client_ca)
            .policies(self.policies(number, allows))
            // Checks of so many pools at the usual interval would be the load that is measured.
            .set(
                "/spec/portcullis",
                json!({"healthCheck": {"interval": format!("{}s", self.check_interval), "timeout": "1m"}}),
            )
    }

    fn policies(&self, number: u32, allows: bool) -> Value {
        let others = 1..self.policies;
        let mut policies: Vec<Value> = others
            .map(|policy| {
                let rules: Vec<Value> = (0..RULES).map(|rule| others_rule(number * 100 + policy, rule)).collect();
                json!({"rules": rules})
            })
            .collect();
        let group = if allows { "developers" } else { "nobody" };
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "userGroups": [group]});
        policies.push(json!({"rules": [rule]}));
        policies.into()
    }
}

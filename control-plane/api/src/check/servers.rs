use std::collections::BTreeMap;

use super::Findings;
use super::endpoint::{Endpoint, parse_endpoint};
use super::reach::check_reach;
use crate::types::ServerSpec;

/// A kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The address of the server.
    pub endpoint: Endpoint,
    /// Whether it takes requests.
    pub enabled: bool,
    /// The zone of the server; empty if it is not known.
    pub zone: String,
}

/// The servers, each endpoint once, sorted. An endpoint that is listed twice is enabled only if both entries are.
pub(super) fn check_servers(raw: &[ServerSpec], allow_loopback: bool, findings: &mut Findings) -> Vec<Server> {
    if raw.is_empty() {
        findings.problem("spec.servers", "at least one server is required");
    }
    let mut servers: BTreeMap<Endpoint, bool> = BTreeMap::new();
    for (index, server) in raw.iter().enumerate() {
        let path = format!("spec.servers[{index}].endpoint");
        let parsed = match parse_endpoint(&server.endpoint) {
            Ok(parsed) => parsed,
            Err(error) => {
                findings.problem(path, error.to_string());
                continue;
            }
        };
        if let Err(error) = check_reach(&parsed.endpoint.host, allow_loopback) {
            findings.problem(path, error.to_string());
            continue;
        }
        if parsed.had_path {
            findings.warning(path.clone(), "the path is ignored");
        }
        let enabled = !server.disabled.unwrap_or(false);
        let known = servers.insert(parsed.endpoint.clone(), enabled);
        if let Some(before) = known {
            findings.warning(path, "is listed twice");
            servers.insert(parsed.endpoint, enabled && before);
        }
    }
    if !servers.is_empty() && !servers.values().any(|enabled| *enabled) {
        findings.warning("spec.servers", "every server is disabled: requests are answered 503");
    }
    servers.into_iter().map(|(endpoint, enabled)| Server { endpoint, enabled, zone: String::new() }).collect()
}

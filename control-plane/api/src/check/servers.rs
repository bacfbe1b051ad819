use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Findings;
use super::address_policy::check_address;
use super::endpoint::{Endpoint, parse_endpoint};
use super::labels::is_label_value;
use crate::types::{ServerDetails, UpstreamClusterSpec};

/// A kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The address of the server.
    pub endpoint: Endpoint,
    /// Whether it takes requests.
    pub enabled: bool,
    /// The zone of the server; empty if it is not known.
    pub zone: String,
    /// Whether it is of `spec.portcullis.discovery`, and not of `spec.servers`.
    pub discovered: bool,
}

/// The servers, each endpoint once, sorted. An endpoint that is listed twice is enabled only if both entries are.
pub(super) fn check_servers(spec: &UpstreamClusterSpec, allow_loopback: bool, findings: &mut Findings) -> Vec<Server> {
    let (raw, discovery) = (&spec.servers, spec.portcullis.discovery.as_ref());
    if raw.is_empty() && discovery.is_none_or(|discovery| discovery.service.is_none() && discovery.srv_record.is_none())
    {
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
        if let Err(error) = check_address(&parsed.endpoint.host, allow_loopback) {
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
    if discovery.is_none() && !servers.is_empty() && !servers.values().any(|enabled| *enabled) {
        findings.warning("spec.servers", "every server is disabled: requests are answered 503");
    }
    let server = |(endpoint, enabled)| Server { endpoint, enabled, zone: String::new(), discovered: false };
    servers.into_iter().map(server).collect()
}

/// Puts what `spec.portcullis.servers` says of them into the servers.
pub(super) fn check_details(raw: &[ServerDetails], servers: &mut [Server], findings: &mut Findings) {
    let mut zones: BTreeMap<Endpoint, &str> = BTreeMap::new();
    for (index, details) in raw.iter().enumerate() {
        let path = format!("spec.portcullis.servers[{index}]");
        if !is_label_value(&details.zone) {
            let message = "must be letters, digits, - _ and . between letters or digits, up to 63";
            findings.problem(format!("{path}.zone"), message);
        }
        let known = parse_endpoint(&details.endpoint).ok().map(|parsed| parsed.endpoint);
        let known = known.filter(|endpoint| servers.iter().any(|server| server.endpoint == *endpoint));
        match known {
            None => findings.problem(format!("{path}.endpoint"), "is not an endpoint of spec.servers"),
            Some(endpoint) if zones.insert(endpoint.clone(), &details.zone).is_some() => {
                findings.problem(format!("{path}.endpoint"), "is listed twice");
            }
            Some(_) => {}
        }
    }
    for server in servers {
        server.zone = zones.get(&server.endpoint).map(|zone| (*zone).to_owned()).unwrap_or_default();
    }
}

/// The addresses, each once.
pub(super) fn check_virtual_ips(raw: &[String], findings: &mut Findings) -> Vec<IpAddr> {
    let mut addresses = Vec::with_capacity(raw.len());
    for (index, text) in raw.iter().enumerate() {
        match virtual_ip(text) {
            Some(ip) if !addresses.contains(&ip) => addresses.push(ip),
            Some(_) => {}
            None => {
                let path = format!("spec.portcullis.virtualIPs[{index}]");
                findings.problem(path, "must be the IP address of one machine");
            }
        }
    }
    addresses
}

/// An address to which a client can connect.
pub(crate) fn virtual_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    let ip = ip.to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    (!ip.is_unspecified() && !ip.is_multicast() && !is_broadcast).then_some(ip)
}

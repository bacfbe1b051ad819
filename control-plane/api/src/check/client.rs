use std::net::IpAddr;

use super::Findings;
use super::certificates::{KeyPair, read_bundle, read_key_pair};
use crate::dns_name::is_dns_name;
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::secret::{PublicBytes, SecretBytes};
use crate::types::ClientConfig;

/// The name that a server's certificate must carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerName {
    /// Also sent as SNI.
    Dns(String),
    /// Sent without SNI.
    Ip(IpAddr),
}

/// Which servers' certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that a CA of this PEM bundle signed for the [`PeerName`].
    Bundle(PublicBytes),
    /// Any (`clientConfig.insecure`).
    Insecure,
}

/// How the gateway talks to the servers, and as whom.
pub(super) struct Client {
    pub(super) peer_name: PeerName,
    pub(super) trust: Trust,
    pub(super) certificate: Option<KeyPair>,
    pub(super) token: Option<SecretBytes>,
}

const PATH: &str = "spec.clientConfig";

/// `is_needed`: whether the gateway sends requests itself. Else a credential and a CA may be missing.
pub(super) fn check_client(
    raw: &ClientConfig,
    cluster_name: &str,
    is_needed: bool,
    findings: &mut Findings,
) -> Option<Client> {
    check_rate(raw, findings);
    let certificate = check_certificate(raw, findings);
    let token = check_token(raw, findings);
    let (has_certificate, has_token) =
        (!raw.cert_data.is_empty() || !raw.key_data.is_empty(), !raw.bearer_token.is_empty());
    if is_needed && !has_certificate && !has_token {
        findings
            .problem(PATH, "neither certData with keyData nor bearerToken is set: the gateway would have no identity");
    }
    let is_left_out = !is_needed && !raw.insecure && raw.ca_data.is_empty();
    let trust = if is_left_out { Some(Trust::Insecure) } else { check_trust(raw, findings) };
    let peer_name = check_peer_name(raw, cluster_name, findings);
    Some(Client { peer_name: peer_name?, trust: trust?, certificate, token })
}

fn check_certificate(raw: &ClientConfig, findings: &mut Findings) -> Option<KeyPair> {
    match (raw.cert_data.is_empty(), raw.key_data.is_empty()) {
        (true, true) => None,
        (true, false) => {
            findings.problem(format!("{PATH}.certData"), "is missing beside keyData");
            None
        }
        (false, true) => {
            findings.problem(format!("{PATH}.keyData"), "is missing beside certData");
            None
        }
        (false, false) => read_key_pair(&raw.cert_data, &raw.key_data)
            .map_err(|error| findings.problem(format!("{PATH}.certData"), error.to_string()))
            .ok(),
    }
}

/// A token travels in a header: anything but visible ASCII would be refused there, request by request.
fn check_token(raw: &ClientConfig, findings: &mut Findings) -> Option<SecretBytes> {
    let token = raw.bearer_token.expose().trim_ascii();
    if raw.bearer_token.is_empty() {
        return None;
    }
    if token.is_empty() || !token.iter().all(u8::is_ascii_graphic) {
        findings.problem(format!("{PATH}.bearerToken"), "must be visible ASCII without spaces");
        return None;
    }
    Some(SecretBytes::new(token.to_vec()))
}

fn check_trust(raw: &ClientConfig, findings: &mut Findings) -> Option<Trust> {
    match (raw.insecure, raw.ca_data.is_empty()) {
        (true, true) => {
            findings.warning(format!("{PATH}.insecure"), "the servers' certificates are not verified");
            Some(Trust::Insecure)
        }
        (true, false) => {
            findings.problem(format!("{PATH}.caData"), "excludes insecure: remove one of the two");
            None
        }
        (false, true) => {
            findings.problem(format!("{PATH}.caData"), "is required for https servers");
            None
        }
        (false, false) => read_bundle(&raw.ca_data)
            .map_err(|error| findings.problem(format!("{PATH}.caData"), error.to_string()))
            .ok()
            .map(Trust::Bundle),
    }
}

fn check_peer_name(raw: &ClientConfig, cluster_name: &str, findings: &mut Findings) -> Option<PeerName> {
    let name = if raw.server_name.is_empty() { cluster_name } else { raw.server_name.as_str() };
    if let Ok(ip) = name.parse() {
        return Some(PeerName::Ip(ip));
    }
    let name = name.to_ascii_lowercase();
    if is_dns_name(&name) {
        return Some(PeerName::Dns(name));
    }
    if !raw.server_name.is_empty() {
        findings.problem(format!("{PATH}.serverName"), "must be a DNS name or an IP address");
    }
    None
}

fn check_rate(raw: &ClientConfig, findings: &mut Findings) {
    for (field, value) in [("qps", raw.qps), ("burst", raw.burst), ("qpsDivisor", raw.qps_divisor)] {
        match value {
            0 => {}
            ..0 => findings.problem(format!("{PATH}.{field}"), "must not be negative"),
            1.. => findings.warn(Problem::coded(
                ProblemCode::NoEffect,
                format!("{PATH}.{field}"),
                "has no effect: the gateway's own requests have other limits",
            )),
        }
    }
    if raw.qps > 0 && (0..raw.qps).contains(&raw.burst) {
        findings.problem(format!("{PATH}.burst"), "must be at least qps");
    }
}

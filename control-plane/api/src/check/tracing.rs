use std::net::IpAddr;

use super::Findings;
use super::certificates::read_bundle;
use super::client::PeerName;
use super::endpoint::{Endpoint, ServerHost};
use crate::dns_name::is_dns_name;
use crate::problem::{Problem, ProblemCode};
use crate::references::unresolved_authority;
use crate::secret::PublicBytes;
use crate::types::{TracingParents, TracingProtocol, TracingSettings, TracingUsers};

/// One in a million requests: the unit of sampling rates.
const MILLION: u32 = 1_000_000;
/// The steps of Envoy's random sampling, in requests of a million.
const STEP: u32 = 100;

/// The checked form of `tracing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// The collector's receiver.
    pub endpoint: Endpoint,
    /// The protocol of its receiver.
    pub protocol: TracingProtocol,
    /// How the collector is verified; `None` sends spans without TLS.
    pub tls: Option<CollectorTls>,
    /// Traced requests in ten thousand, of those without a trusted parent.
    pub sampled_of_10_000: u32,
    /// Whether clients' traces go on.
    pub parents: TracingParents,
    /// Whether spans contain names of users.
    pub users: TracingUsers,
}

/// TLS to a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorTls {
    /// The CAs of its certificate, PEM.
    pub ca: PublicBytes,
    /// The name in its certificate.
    pub name: PeerName,
}

/// Checks `spec.tracing`.
pub(super) fn check_tracing(raw: Option<&TracingSettings>, findings: &mut Findings) -> Option<Tracing> {
    let raw = raw?;
    let endpoint = parse(&raw.endpoint);
    if endpoint.is_none() {
        let message = "must be the host and port of a receiver for OTLP, as in collector.example.com:4317";
        findings.problem("spec.tracing.endpoint", message);
    }
    let sampled_of_10_000 = check_rate(raw, findings);
    if raw.parents == TracingParents::Trusted {
        let message = "lets every client have all its requests traced, here and by the servers";
        findings.warning("spec.tracing.parents", message);
    }
    let endpoint = endpoint?;
    let tls = check_tls(raw, &endpoint.host, findings);
    let TracingSettings { protocol, parents, users, .. } = *raw;
    Some(Tracing { endpoint, protocol, tls, sampled_of_10_000, parents, users })
}

fn check_rate(raw: &TracingSettings, findings: &mut Findings) -> u32 {
    let path = "spec.tracing.samplingRatePerMillion";
    let rate = raw.sampling_rate_per_million.unwrap_or_default();
    if rate > MILLION {
        findings.problem(path, "must be at most 1000000");
    } else if !rate.is_multiple_of(STEP) {
        findings.problem(path, "must be a multiple of 100: Envoy samples by ten-thousandths");
    } else if rate == 0 && raw.parents == TracingParents::Ignored {
        let none = Problem::coded(
            ProblemCode::NoEffect,
            path,
            "is 0 or not set, and parents are ignored: no request is traced",
        );
        findings.warn(none.hint("10000 traces one request in a hundred"));
    }
    rate / STEP
}

/// How the collector is verified. Without TLS spans go to the own machine only, unless the settings say otherwise.
fn check_tls(raw: &TracingSettings, host: &ServerHost, findings: &mut Findings) -> Option<CollectorTls> {
    let name = raw.server_name.as_deref().map(parse_name);
    if matches!(name, Some(None)) {
        findings.problem("spec.tracing.serverName", "must be a DNS name or an IP address");
    }
    let Some(authority) = &raw.ca else {
        if !raw.insecure && !is_loopback(host) {
            let message = "is required: without it spans would go to another machine without TLS";
            let hint = "insecure: true sends them so".to_owned();
            findings.problem_with_hint("spec.tracing.ca", message, hint);
        } else if name.is_some() {
            findings
                .problem("spec.tracing.serverName", "has no certificate to be compared with, because ca is not set");
        }
        return None;
    };
    if raw.insecure {
        findings.problem("spec.tracing.insecure", "excludes ca: remove one of the two");
    }
    let reference = (authority.file.as_deref(), authority.secret.as_ref());
    if let Some(problem) = unresolved_authority("spec.tracing.ca", &authority.data, reference) {
        findings.problems.push(problem);
        return None;
    }
    let ca = read_bundle(&authority.data)
        .map_err(|error| findings.problem("spec.tracing.ca.data", error.to_string()))
        .ok()?;
    let name = match name.flatten().unwrap_or_else(|| host.clone()) {
        ServerHost::Ip(ip) => PeerName::Ip(ip),
        ServerHost::Dns(name) => PeerName::Dns(name),
    };
    Some(CollectorTls { ca, name })
}

fn parse(endpoint: &str) -> Option<Endpoint> {
    let (host, port) = endpoint.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => ServerHost::Ip(IpAddr::V6(host.parse().ok()?)),
        None => parse_name(host).filter(|host| !matches!(host, ServerHost::Ip(IpAddr::V6(_))))?,
    };
    Some(Endpoint { host, port })
}

fn parse_name(name: &str) -> Option<ServerHost> {
    let ip = name.parse().map(ServerHost::Ip).ok();
    ip.or_else(|| is_dns_name(name).then(|| ServerHost::Dns(name.to_owned())))
}

fn is_loopback(host: &ServerHost) -> bool {
    matches!(host, ServerHost::Ip(ip) if ip.is_loopback())
}

#[cfg(test)]
mod tests;

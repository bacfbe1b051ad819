use std::collections::BTreeSet;
use std::fmt;

use super::address_policy::check_address;
use super::client::Trust;
use super::endpoint::{Endpoint, ServerHost};
use super::servers::{Server, is_zone};
use super::{Findings, endpoint::EndpointError};
use crate::bounds::MAX_SERVERS;
use crate::discovered::{Discovered, DiscoveredServer, discovered_of};
use crate::dns_name::is_dns_label;
use crate::problem::{Problem, ProblemCode};
use crate::types::{DiscoveryService, DiscoverySpec, UpstreamCluster};

const PATH: &str = "spec.portcullis.discovery";
/// Most discovered addresses that are not used and named one by one.
const MAX_NAMED: usize = 8;

/// The source of servers beside the written ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// EndpointSlices in the Kubernetes that stores the objects.
    Service {
        /// The Service's namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The port of the slices.
        port: SlicePort,
    },
    /// The EndpointSlice `default/kubernetes` of the upstream.
    KubernetesService,
}

/// Which of the ports of an EndpointSlice is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlicePort {
    /// The only one.
    Only,
    /// The one of this number.
    Number(u16),
    /// The one of this name.
    Name(String),
}

impl fmt::Display for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discovery::Service { namespace, name, .. } => write!(f, "Service {namespace}/{name}"),
            Discovery::KubernetesService => f.write_str("EndpointSlice default/kubernetes of the upstream"),
        }
    }
}

/// Reads where further servers are found.
pub(super) fn check_discovery(
    raw: Option<&DiscoverySpec>,
    trust: Option<&Trust>,
    findings: &mut Findings,
) -> Option<Discovery> {
    let raw = raw?;
    // An address that a list of others brings is a server only by its certificate.
    if trust == Some(&Trust::Insecure) {
        findings.problem(PATH, "needs servers that are verified: remove spec.clientConfig.insecure, and set caData");
    }
    match (&raw.service, raw.kubernetes_service) {
        (Some(service), false) => Some(check_service(service, findings)),
        (None, true) => Some(Discovery::KubernetesService),
        _ => {
            findings.problem(PATH, "exactly one of service and kubernetesService is required");
            None
        }
    }
}

fn check_service(raw: &DiscoveryService, findings: &mut Findings) -> Discovery {
    for (field, name) in [("namespace", &raw.namespace), ("name", &raw.name)] {
        if !is_dns_label(name) {
            findings.problem(format!("{PATH}.service.{field}"), "must be the name of a Kubernetes object");
        }
    }
    let port = match (raw.port, &raw.port_name) {
        (None, None) => SlicePort::Only,
        (Some(number), None) => match u16::try_from(number).ok().filter(|number| *number != 0) {
            Some(number) => SlicePort::Number(number),
            None => {
                findings.problem(format!("{PATH}.service.port"), EndpointError::Port.to_string());
                SlicePort::Only
            }
        },
        (None, Some(name)) => {
            if !is_dns_label(name) {
                findings.problem(format!("{PATH}.service.portName"), "must be the name of a port");
            }
            SlicePort::Name(name.clone())
        }
        (Some(_), Some(_)) => {
            findings.problem(format!("{PATH}.service.portName"), "excludes port: remove one of the two");
            SlicePort::Only
        }
    };
    Discovery::Service { namespace: raw.namespace.clone(), name: raw.name.clone(), port }
}

/// Adds the discovered servers that a written one could be to the written ones, which win: one that is disabled stays so.
pub(super) fn add_discovered(
    raw: &UpstreamCluster,
    discovery: Option<&Discovery>,
    allow_loopback: bool,
    servers: &mut Vec<Server>,
    findings: &mut Findings,
) {
    let (Some(_), Some(discovered)) = (discovery, discovered_of(raw)) else { return };
    let found = match discovered {
        Discovered::Unsupported => {
            let message = "needs a control plane that reads its objects from a Kubernetes API (--source kubernetes): this one \
                           reads files, and has no Kubernetes to ask";
            findings.problem(format!("{PATH}.service"), message);
            return;
        }
        Discovered::Servers(found) => found,
    };
    let mut unused = Vec::new();
    let written: BTreeSet<Endpoint> = servers.iter().map(|server| server.endpoint.clone()).collect();
    let mut seen = BTreeSet::new();
    for DiscoveredServer { ip, port, zone } in found {
        let endpoint = Endpoint { host: ServerHost::Ip(ip.to_canonical()), port };
        if written.contains(&endpoint) || !seen.insert(endpoint.clone()) {
            continue;
        }
        if let Err(error) = check_address(&endpoint.host, allow_loopback) {
            unused.push(format!("{endpoint} is not used: {error}"));
        } else if servers.len() >= MAX_SERVERS {
            unused.push(format!("{endpoint} is not used: an object has at most {MAX_SERVERS} servers"));
        } else {
            let zone = if is_zone(&zone) { zone } else { String::new() };
            servers.push(Server { endpoint, enabled: true, zone, discovered: true });
        }
    }
    let more = unused.len().saturating_sub(MAX_NAMED);
    for message in unused.into_iter().take(MAX_NAMED) {
        findings.warning(PATH, message);
    }
    if more > 0 {
        findings.warning(PATH, format!("{more} more addresses are not used"));
    }
    servers.sort_by(|one, other| one.endpoint.cmp(&other.endpoint));
    if !servers.iter().any(|server| server.enabled) {
        let message = "no server is known or enabled: requests are answered 503";
        findings.warn(Problem::coded(ProblemCode::RefusesEverything, PATH, message));
    }
}

use std::collections::BTreeSet;
use std::fmt;

use super::address_policy::check_address;
use super::client::Trust;
use super::endpoint::{Endpoint, ServerHost};
use super::labels::is_label_value;
use super::servers::{Server, WITHOUT_WEIGHT};
use super::{Findings, endpoint::EndpointError};
use crate::bounds::MAX_SERVERS;
use crate::discovered::{Discovered, DiscoveredServer, discovered_of};
use crate::dns_name::{is_dns_label, is_srv_name};
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
    /// The SRV records of this DNS name, which has no dot at its end.
    SrvRecord(String),
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
            Discovery::Service { namespace, name, port } => write!(f, "Service {namespace}/{name}{port}"),
            Discovery::KubernetesService => f.write_str("EndpointSlice default/kubernetes of the upstream"),
            Discovery::SrvRecord(name) => write!(f, "SRV records of {name}"),
        }
    }
}

impl fmt::Display for SlicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlicePort::Only => Ok(()),
            SlicePort::Number(number) => write!(f, " port {number}"),
            SlicePort::Name(name) => write!(f, " port {name}"),
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
    match (&raw.service, raw.kubernetes_service, &raw.srv_record) {
        (Some(service), false, None) => Some(check_service(service, findings)),
        (None, true, None) => Some(Discovery::KubernetesService),
        (None, false, Some(name)) => Some(check_srv_record(name, findings)),
        _ => {
            findings.problem(PATH, "exactly one of service, kubernetesService and srvRecord is required");
            None
        }
    }
}

fn check_srv_record(name: &str, findings: &mut Findings) -> Discovery {
    if !is_srv_name(name) {
        let message = "must be the DNS name of SRV records in lower case, like _https._tcp.apiservers.example.com, without a dot at \
                       its end";
        findings.problem(format!("{PATH}.srvRecord"), message);
    }
    Discovery::SrvRecord(name.to_owned())
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
    let (Some(_), Some(discovered)) = (discovery, discovered_of(raw.status.as_ref())) else { return };
    let found = match discovered {
        Discovered::Unsupported => {
            let message = "needs a control plane that reads its objects from a Kubernetes API (--source kubernetes): this one \
                           reads files, and has no Kubernetes to ask";
            findings.problem(format!("{PATH}.service"), message);
            return;
        }
        Discovered::Servers(found) => found,
    };
    let unused = add_usable(found, allow_loopback, servers);
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

/// The servers of a source that has no object, such as a Service behind a route of the Gateway API: each address once, sorted, judged
/// as those of an object are.
pub fn usable_servers(found: Vec<DiscoveredServer>, allow_loopback: bool) -> Vec<Server> {
    let mut servers = Vec::new();
    // They are warnings of an object, and there is none.
    let _unused = add_usable(found, allow_loopback, &mut servers);
    servers.sort_by(|one, other| one.endpoint.cmp(&other.endpoint));
    servers
}

/// Adds discovered servers to those that are there, which win. Returns those that are not used, and why.
fn add_usable(found: Vec<DiscoveredServer>, allow_loopback: bool, servers: &mut Vec<Server>) -> Vec<String> {
    let mut unused = Vec::new();
    let mut seen: BTreeSet<Endpoint> = servers.iter().map(|server| server.endpoint.clone()).collect();
    for DiscoveredServer { ip, port, zone } in found {
        let endpoint = Endpoint { host: ServerHost::Ip(ip.to_canonical()), port };
        if !seen.insert(endpoint.clone()) {
            continue;
        }
        if let Err(error) = check_address(&endpoint.host, allow_loopback) {
            unused.push(format!("{endpoint} is not used: {error}"));
        } else if servers.len() >= MAX_SERVERS {
            unused.push(format!("{endpoint} is not used: an object has at most {MAX_SERVERS} servers"));
        } else {
            let zone = if is_label_value(&zone) { zone } else { String::new() };
            servers.push(Server { endpoint, enabled: true, zone, weight: WITHOUT_WEIGHT, discovered: true });
        }
    }
    unused
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::{Cluster, check_cluster, unchecked_cluster};
    use crate::discovered::{Discovered, DiscoveredServer, with_discovered};
    use crate::parse_cluster;

    fn document(spec: &Value) -> Value {
        json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a.test"},
            "spec": spec,
        })
    }

    /// The fields of the problems of an object with this discovery and `insecure`.
    fn blamed(discovery: &Value, more: &Value) -> Vec<String> {
        let mut spec = json!({"dispatchPolicies": [{"rules": [{}]}], "portcullis": {"discovery": discovery}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let raw = parse_cluster(&document(&spec)).unwrap();
        let problems = check_cluster(&raw, false).outcome.unwrap_err();
        let paths = problems.into_iter().map(|problem| problem.path);
        paths.filter(|path| !path.starts_with("spec.clientConfig")).collect()
    }

    #[test]
    fn source_of_servers_is_checked() {
        let service = json!({"namespace": "a", "name": "b"});
        let with = |field: &str, value: Value| {
            let mut service = service.clone();
            service[field] = value;
            json!({"service": service})
        };
        let path = "spec.portcullis.discovery";
        let (none, servers) = (json!({}), json!({"servers": [{"endpoint": "https://10.0.0.1"}]}));
        for (discovery, more, blame) in [
            (json!({"service": service}), &none, vec![]),
            (json!({"kubernetesService": true}), &none, vec!["spec.servers".to_owned()]),
            (json!({"kubernetesService": true}), &servers, vec![]),
            (json!({}), &servers, vec![path.to_owned()]),
            (json!({"service": service, "kubernetesService": true}), &servers, vec![path.to_owned()]),
            (json!({"service": service, "srvRecord": "_https._tcp.a.test"}), &servers, vec![path.to_owned()]),
            (json!({"kubernetesService": true, "srvRecord": "_https._tcp.a.test"}), &servers, vec![path.to_owned()]),
            (json!({"srvRecord": "_https._tcp.a.test"}), &none, vec![]),
            (json!({"srvRecord": "a.test"}), &none, vec![format!("{path}.srvRecord")]),
            (json!({"srvRecord": ""}), &none, vec![format!("{path}.srvRecord")]),
            (with("port", json!(6443)), &none, vec![]),
            (with("port", json!(0)), &none, vec![format!("{path}.service.port")]),
            (with("port", json!(65_536)), &none, vec![format!("{path}.service.port")]),
            (with("portName", json!("https")), &none, vec![]),
            (with("portName", json!("")), &none, vec![format!("{path}.service.portName")]),
            (with("namespace", json!("a/b")), &none, vec![format!("{path}.service.namespace")]),
            (with("name", json!("..")), &none, vec![format!("{path}.service.name")]),
            (json!({"service": service}), &json!({"clientConfig": {"insecure": true}}), vec![path.to_owned()]),
        ] {
            assert_eq!(blamed(&discovery, more), blame, "{discovery} {more}");
        }
    }

    fn with_servers(addresses: &[&str], allow_loopback: bool) -> (Cluster, Vec<String>) {
        let servers = json!([{"endpoint": "https://10.0.0.1:6443", "disabled": true}]);
        let spec = json!({
            "servers": servers, "dispatchPolicies": [{"rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}],
            "portcullis": {
                "discovery": {"kubernetesService": true},
                "servers": [{"endpoint": "https://10.0.0.1:6443", "zone": "z"}],
            },
        });
        let server = |address: &&str| {
            let address: std::net::SocketAddr = address.parse().unwrap();
            DiscoveredServer { ip: address.ip(), port: address.port(), zone: "a/b".to_owned() }
        };
        let discovered = Discovered::Servers(addresses.iter().map(server).collect());
        let document = with_discovered(&Arc::new(document(&spec)), Some(&discovered));
        let raw = parse_cluster(&document).unwrap();
        let warnings = check_cluster(&raw, allow_loopback).warnings;
        (unchecked_cluster(&raw).unwrap(), warnings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn discovered_address_is_judged_like_a_written_one() {
        let addresses = [
            "10.0.0.2:6443",
            "127.0.0.1:6443",
            "169.254.169.254:80",
            "[::1]:6443",
            "[::ffff:169.254.169.254]:80",
            "[fe80::1]:6443",
            "[64:ff9b::7f00:1]:443",
            "100.100.100.200:80",
            "0.0.0.0:1",
        ];
        let (_, warnings) = with_servers(&addresses, false);
        assert_eq!(warnings.len(), 7, "{warnings:#?}");
        for address in ["127.0.0.1:6443", "169.254.169.254:80", "[::1]:6443", "[fe80::1]:6443", "0.0.0.0:1"] {
            let told = format!("spec.portcullis.discovery: {address} is not used");
            assert!(warnings.iter().any(|warning| warning.starts_with(&told)), "{address}: {warnings:#?}");
        }
        assert_eq!(with_servers(&addresses, true).1.len(), 4, "loopback addresses are allowed");
        let many: Vec<String> = (0..20).map(|port| format!("169.254.0.1:{}", 1 + port)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (_, warnings) = with_servers(&many, true);
        assert!(warnings.iter().any(|warning| warning.contains("12 more addresses")), "{warnings:#?}");
        assert!(warnings.iter().any(|warning| warning.contains("answered 503")), "{warnings:#?}");
    }

    #[test]
    fn servers_that_a_document_brings_are_not_read() {
        let spec = json!({
            "servers": [{"endpoint": "https://10.0.0.1:6443"}], "portcullis": {"discovery": {"kubernetesService": true}},
        });
        let mut document = document(&spec);
        document["status"] = json!({"discovered": {"servers": [{"address": "10.6.6.6:6443", "zone": ""}]}});
        let shown = |document: &Value| unchecked_cluster(&parse_cluster(document).unwrap()).unwrap().servers.len();
        assert_eq!(shown(&document), 1);
        let ip = std::net::IpAddr::from([10, 0, 0, 2]);
        let found = Discovered::Servers(vec![DiscoveredServer { ip, port: 6443, zone: String::new() }]);
        assert_eq!(shown(&with_discovered(&Arc::new(document), Some(&found))), 2);
    }

    #[test]
    fn written_server_wins_over_the_discovered_one() {
        let (cluster, warnings) = with_servers(&["10.0.0.3:6443", "10.0.0.1:6443", "10.0.0.2:6443"], false);
        assert_eq!(warnings, [""; 0]);
        let shown: Vec<_> = cluster
            .servers
            .iter()
            .map(|server| (server.endpoint.to_string(), server.enabled, server.zone.as_str(), server.discovered))
            .collect();
        let wanted = [
            ("10.0.0.1:6443".to_owned(), false, "z", false),
            ("10.0.0.2:6443".to_owned(), true, "", true),
            ("10.0.0.3:6443".to_owned(), true, "", true),
        ];
        assert_eq!(shown, wanted, "a zone that is none is left out");
    }
}

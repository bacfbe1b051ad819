use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use portcullis_filter_config::{AccessLists, AccessScope, ProtectedIdentities, Rebalance, RequestHeaders};

use super::access::check_access;
use super::certificates::{KeyPair, read_client_bundle, read_key_pair};
use super::cidr::{Cidr, check_ranges};
use super::identity::check_header_names;
use super::listener::{check_addresses, distinct};
use super::listener_tls::{DownstreamTls, check_listener_tls};
use super::protected::check_protected;
use super::proxies::{ProxyProtocol, check_proxy_protocol, check_trusted_hops};
use super::rebalance::check_rebalance;
use super::tracing::{Tracing, check_tracing};
use super::tunnel::{Tunnel, check_tunnel};
use super::{Checked, Findings};
use crate::dns_name::is_dns_label;
use crate::references::{unresolved_authority, unresolved_certificate};
use crate::secret::PublicBytes;
use crate::types::{
    ClientCaNames, GatewaySettings, LimitSettings, SecondaryPools, StrictTransportSecurity, UserMetricsMode,
    WildcardSubdomains,
};

/// Clients of each kind that are counted by name, if the settings do not say how many, and at most.
const TOP_TALKERS: (u32, u32) = (100, 1_000);

/// The checked form of `GatewaySettings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The gateway's instance id.
    pub instance: String,
    /// The address for clients.
    pub address: IpAddr,
    /// The port for clients.
    pub port: u16,
    /// Further addresses and ports for clients.
    pub additional_addresses: Vec<SocketAddr>,
    /// TLS between clients and the gateway.
    pub tls: DownstreamTls,
    /// Addresses that clusters may claim as virtual IPs.
    pub virtual_ips: Vec<Cidr>,
    /// The port for proxies that send a client's address.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// The port for HTTP CONNECT.
    pub tunnel: Option<Tunnel>,
    /// How many HTTP proxies in front of the gateway append to `X-Forwarded-For` (Envoy's `xff_num_trusted_hops`).
    pub trusted_hops: u32,
    /// The value of `Strict-Transport-Security` in every answer.
    pub hsts: Option<String>,
    /// Served where a cluster has no certificate of its own.
    pub default_certificate: Option<KeyPair>,
    /// The CAs of client certificates for clusters that have none of their own, PEM.
    pub default_client_ca: Option<PublicBytes>,
    /// Whether handshakes name client CAs.
    pub client_ca_names: ClientCaNames,
    /// Whether servers may have loopback addresses.
    pub allow_loopback_upstreams: bool,
    /// Whether an object may take a name out of another one's wildcard.
    pub wildcard_subdomains: WildcardSubdomains,
    /// The destination of the access log.
    pub access_log: AccessLog,
    /// Number of clients of each kind that are counted by name.
    pub top_talkers: Option<u32>,
    /// The headers in which users are forwarded to servers.
    pub request_header_names: RequestHeaders,
    /// The identities that no user may act as; `None` if none is protected.
    pub protected: Option<ProtectedIdentities>,
    /// The access lists that hold for all clusters, if there are any.
    pub access: Option<AccessLists>,
    /// Bounds.
    pub limits: Limits,
    /// When Envoy makes the pools of a group of servers beside the first.
    pub secondary_pools: SecondaryPools,
    /// The draining of client connections at random, if any.
    pub rebalance: Option<Rebalance>,
    /// The path of portcullis.wasm on the gateways.
    pub wasm_module_path: String,
    /// Traces of requests; `None` if there are none.
    pub tracing: Option<Tracing>,
}

/// The destination of the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// Envoy's standard output.
    #[default]
    Stdout,
    /// Envoy's standard error.
    Stderr,
    /// A file on Envoy's machine.
    File(String),
    /// Nowhere: no request is logged, whatever a cluster says.
    None,
}

/// Bounds of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one pool to its servers.
    pub max_connections: u32,
    /// Requests of one pool in flight.
    pub max_requests: u32,
    /// Requests of one pool that wait for a connection.
    pub max_pending_requests: u32,
    /// Streams of one HTTP/2 connection of a client.
    pub max_concurrent_streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 65_536,
            max_requests: 65_536,
            max_pending_requests: 65_536,
            max_concurrent_streams: 100,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            instance: "portcullis".to_owned(),
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 6443,
            additional_addresses: Vec::new(),
            tls: DownstreamTls::default(),
            virtual_ips: Vec::new(),
            proxy_protocol: None,
            tunnel: None,
            trusted_hops: 0,
            hsts: None,
            default_certificate: None,
            default_client_ca: None,
            client_ca_names: ClientCaNames::default(),
            allow_loopback_upstreams: false,
            wildcard_subdomains: WildcardSubdomains::default(),
            access_log: AccessLog::Stdout,
            top_talkers: None,
            request_header_names: RequestHeaders::default(),
            protected: None,
            access: None,
            limits: Limits::default(),
            secondary_pools: SecondaryPools::default(),
            rebalance: None,
            wasm_module_path: "/usr/lib/portcullis/portcullis.wasm".to_owned(),
            tracing: None,
        }
    }
}

impl Settings {
    /// The addresses and ports for clients; the first are [`Settings::address`] and [`Settings::port`].
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let first = SocketAddr::new(self.address, self.port);
        std::iter::once(first).chain(self.additional_addresses.iter().copied()).collect()
    }

    /// The IP addresses of all of these, each once: those of the ports for proxies and tunnels, and of Gateways that have none of
    /// their own. One that `0.0.0.0` or `::` contains is left out.
    pub fn ips(&self) -> Vec<IpAddr> {
        distinct(self.addresses().iter().map(SocketAddr::ip))
    }
}

/// Checks `GatewaySettings`.
pub fn check_settings(raw: &GatewaySettings) -> Checked<Settings> {
    let mut findings = Findings::default();
    let default = Settings::default();
    let first = SocketAddr::new(default.address, default.port);
    let addresses = check_addresses(&raw.spec.listener, first, &mut findings);
    let (first, additional_addresses) = addresses.parts(first);
    let settings = Settings {
        instance: check_instance_id(raw, default.instance, &mut findings),
        address: first.ip(),
        port: first.port(),
        additional_addresses,
        tls: check_listener_tls(&raw.spec.listener.tls, &mut findings),
        virtual_ips: check_ranges(&raw.spec.listener.virtual_ips, "spec.listener.virtualIPs", &mut findings),
        proxy_protocol: check_proxy_protocol(&raw.spec.listener, &addresses, &mut findings),
        tunnel: check_tunnel(&raw.spec.listener, &addresses, &mut findings),
        trusted_hops: check_trusted_hops(&raw.spec.listener, &mut findings),
        hsts: raw.spec.listener.hsts.as_ref().map(StrictTransportSecurity::value),
        default_certificate: check_default_certificate(raw, &mut findings),
        default_client_ca: check_default_client_ca(raw, &mut findings),
        client_ca_names: raw.spec.client_ca_names,
        allow_loopback_upstreams: raw.spec.allow_loopback_upstreams,
        wildcard_subdomains: raw.spec.wildcard_subdomains,
        access_log: check_access_log(raw, &mut findings),
        top_talkers: check_user_metrics(raw, &mut findings),
        request_header_names: check_header_names(&raw.spec.request_header_names, &mut findings),
        protected: check_protected(&raw.spec.protected_identities, &mut findings),
        access: check_access(&raw.spec.access, "spec.access", AccessScope::Gateway, &mut findings),
        limits: check_limits(&raw.spec.limits, default.limits, &mut findings),
        secondary_pools: raw.spec.secondary_pools,
        rebalance: raw.spec.rebalance.as_ref().and_then(|rebalance| check_rebalance(rebalance, &mut findings)),
        wasm_module_path: check_wasm_module_path(raw, default.wasm_module_path, &mut findings),
        tracing: check_tracing(raw.spec.tracing.as_ref(), &mut findings),
    };
    findings.finish(Some(settings))
}

fn check_instance_id(raw: &GatewaySettings, default: String, findings: &mut Findings) -> String {
    let instance = raw.spec.instance.clone().unwrap_or(default);
    if !is_dns_label(&instance) {
        findings.problem("spec.instance", "must be a DNS label: lower-case letters, digits and -");
    }
    instance
}

fn check_default_certificate(raw: &GatewaySettings, findings: &mut Findings) -> Option<KeyPair> {
    let certificate = raw.spec.default_certificate.as_ref()?;
    if let Some(problem) = unresolved_certificate(certificate) {
        findings.problems.push(problem);
        return None;
    }
    read_key_pair(&certificate.cert_data, &certificate.key_data)
        .map_err(|error| findings.problem("spec.defaultCertificate", error.to_string()))
        .ok()
}

fn check_default_client_ca(raw: &GatewaySettings, findings: &mut Findings) -> Option<PublicBytes> {
    let authority = raw.spec.default_client_ca.as_ref()?;
    let reference = (authority.file.as_deref(), authority.secret.as_ref());
    if let Some(problem) = unresolved_authority("spec.defaultClientCA", &authority.data, reference) {
        findings.problems.push(problem);
        return None;
    }
    read_client_bundle(&authority.data)
        .map_err(|error| findings.problem("spec.defaultClientCA.data", error.to_string()))
        .ok()
}

fn check_access_log(raw: &GatewaySettings, findings: &mut Findings) -> AccessLog {
    match raw.spec.access_log.destination.as_deref() {
        None | Some("stdout") => AccessLog::Stdout,
        Some("stderr") => AccessLog::Stderr,
        Some("none") => AccessLog::None,
        Some(path) if path.starts_with('/') && !path.contains('\0') => AccessLog::File(path.to_owned()),
        Some(_) => {
            findings.problem("spec.accessLog.destination", "must be stdout, stderr, none or an absolute path");
            AccessLog::Stdout
        }
    }
}

fn check_user_metrics(raw: &GatewaySettings, findings: &mut Findings) -> Option<u32> {
    let users = &raw.spec.metrics.users;
    let (usual, most) = TOP_TALKERS;
    let number = users.k.unwrap_or(usual);
    if !(1..=most).contains(&number) {
        findings.problem("spec.metrics.users.k", format!("must be from 1 to {most}"));
    }
    (users.mode == UserMetricsMode::TopK).then_some(number)
}

fn check_wasm_module_path(raw: &GatewaySettings, default: String, findings: &mut Findings) -> String {
    let file = raw.spec.wasm_module_path.clone().unwrap_or(default);
    if !file.starts_with('/') || file.contains('\0') {
        findings.problem("spec.wasmModulePath", "must be an absolute path");
    }
    file
}

fn check_limits(raw: &LimitSettings, default: Limits, findings: &mut Findings) -> Limits {
    let mut limit = |field: &str, value: Option<u32>, default: u32| {
        if value == Some(0) {
            findings.problem(format!("spec.limits.{field}"), "must be at least 1");
        }
        value.unwrap_or(default)
    };
    Limits {
        max_connections: limit("maxConnections", raw.max_connections, default.max_connections),
        max_requests: limit("maxRequests", raw.max_requests, default.max_requests),
        max_pending_requests: limit("maxPendingRequests", raw.max_pending_requests, default.max_pending_requests),
        max_concurrent_streams: limit(
            "maxConcurrentStreams",
            raw.max_concurrent_streams,
            default.max_concurrent_streams,
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn destination(text: &str) -> Result<AccessLog, String> {
        let document = json!({
            "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
            "spec": {"accessLog": {"destination": text}},
        });
        let checked = check_settings(&crate::parse_settings(&document).unwrap());
        checked.outcome.map(|settings| settings.access_log).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn clients_are_counted_by_name_only_if_asked_for() {
        let talkers = |users: serde_json::Value| {
            let document = json!({
                "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
                "spec": {"metrics": {"users": users}},
            });
            let checked = check_settings(&crate::parse_settings(&document).unwrap());
            checked.outcome.map(|settings| settings.top_talkers).map_err(|problems| problems[0].to_string())
        };
        assert_eq!(Settings::default().top_talkers, None);
        assert_eq!([talkers(json!({})), talkers(json!({"k": 5}))], [Ok(None), Ok(None)]);
        assert_eq!(talkers(json!({"mode": "TopK"})), Ok(Some(100)));
        assert_eq!(talkers(json!({"mode": "TopK", "k": 1_000})), Ok(Some(1_000)));
        for wrong in [0, 1_001] {
            let problem = talkers(json!({"mode": "TopK", "k": wrong})).unwrap_err();
            assert_eq!(problem, "spec.metrics.users.k: must be from 1 to 1000");
        }
    }

    #[test]
    fn access_log_goes_where_it_is_told() {
        assert_eq!(Settings::default().access_log, AccessLog::Stdout);
        assert_eq!(destination("stdout"), Ok(AccessLog::Stdout));
        assert_eq!(destination("stderr"), Ok(AccessLog::Stderr));
        assert_eq!(destination("none"), Ok(AccessLog::None));
        assert_eq!(destination("/var/log/access.log"), Ok(AccessLog::File("/var/log/access.log".into())));
        for wrong in ["", "off", "access.log", "file:///x", "/a\0b"] {
            let problem = destination(wrong).unwrap_err();
            assert!(problem.starts_with("spec.accessLog.destination: "), "{wrong:?}: {problem}");
        }
    }
}

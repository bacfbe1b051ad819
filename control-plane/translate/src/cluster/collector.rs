//! The Envoy cluster of the collector of traces.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, DnsLookupFamily};
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, Cluster};
use envoy_types::pb::envoy::config::core::v3::{
    Http1ProtocolOptions, Http2ProtocolOptions, KeepaliveSettings, TransportSocket,
};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::CertificateValidationContext;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions,
};
use envoy_types::util::pack_any;
use portcullis_api::{CollectorTls, ServerHost, Settings, Tracing, TracingProtocol};
use prost::Name;

use super::tls;
use crate::names::{ResourceNames, parts, stat_name};
use crate::proto::{boolean, ip_socket, sds, seconds, socket, uint};
use crate::resource::Resource;

/// How long a connection to the collector may take, seconds.
const CONNECT_TIMEOUT: u64 = 5;
/// Batches of spans that wait for a collector, and as many for its answer; further ones are dropped. A batch
/// of five spans is some KiB, and 300 KiB where clients write the longest host names.
const MAX_BATCHES: u32 = 16;
/// Most bytes that Envoy buffers of one connection.
const BUFFER_LIMIT: u32 = 1024 * 1024;

/// The cluster, if requests are traced.
pub(crate) fn collector(settings: &Settings) -> Option<Resource> {
    let tracing = settings.tracing.as_ref()?;
    let names = ResourceNames::collector(&settings.instance, tracing);
    let name = names.upstream(parts::COLLECTOR);
    let (kind, address) = match &tracing.endpoint.host {
        ServerHost::Ip(ip) => (DiscoveryType::Static, ip_socket(*ip, tracing.endpoint.port)),
        ServerHost::Dns(host) => (DiscoveryType::StrictDns, socket(host, tracing.endpoint.port)),
    };
    let endpoint = Endpoint { address: Some(address), ..Default::default() };
    let endpoint =
        LbEndpoint { host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(endpoint)), ..Default::default() };
    let endpoints = LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..Default::default() };
    let cluster = Cluster {
        alt_stat_name: stat_name(&names.part(parts::COLLECTOR)),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(kind.into())),
        dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
        // A collector whose name does not resolve delays no listener.
        wait_for_warm_on_init: Some(boolean(false)),
        load_assignment: Some(ClusterLoadAssignment {
            cluster_name: name.clone(),
            endpoints: vec![endpoints],
            ..Default::default()
        }),
        connect_timeout: Some(seconds(CONNECT_TIMEOUT)),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        circuit_breakers: Some(bounds()),
        transport_socket: tracing
            .tls
            .as_ref()
            .map(|tls| transport_socket(tls, names.upstream(parts::COLLECTOR_CA), tracing.protocol)),
        // One entry, so that a map without order has one encoding.
        typed_extension_protocol_options: HashMap::from([(
            HttpProtocolOptions::full_name(),
            pack_any(options(tracing)),
        )]),
        name: name.clone(),
        ..Default::default()
    };
    Some(Resource::new(name, &cluster))
}

/// Bounds of the memory that a collector may hold which is away, or answers nothing.
fn bounds() -> CircuitBreakers {
    let thresholds = Thresholds {
        max_connections: Some(uint(MAX_BATCHES)),
        max_pending_requests: Some(uint(MAX_BATCHES)),
        max_requests: Some(uint(MAX_BATCHES)),
        max_retries: Some(uint(0)),
        ..Default::default()
    };
    CircuitBreakers { thresholds: vec![thresholds], ..Default::default() }
}

fn options(tracing: &Tracing) -> HttpProtocolOptions {
    let protocol = match tracing.protocol {
        TracingProtocol::Grpc => ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions {
            // A collector that is gone without a word is found out.
            connection_keepalive: Some(KeepaliveSettings {
                interval: Some(seconds(30)),
                timeout: Some(seconds(15)),
                ..Default::default()
            }),
            ..Default::default()
        }),
        TracingProtocol::Http => ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()),
    };
    let explicit = ExplicitHttpConfig { protocol_config: Some(protocol) };
    HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)),
        ..Default::default()
    }
}

fn transport_socket(collector: &CollectorTls, ca: String, protocol: TracingProtocol) -> TransportSocket {
    let names = CertificateValidationContext {
        match_typed_subject_alt_names: vec![tls::san(&collector.name)],
        ..Default::default()
    };
    let validation = CombinedCertificateValidationContext {
        default_validation_context: Some(names),
        validation_context_sds_secret_config: Some(sds(ca)),
        ..Default::default()
    };
    let alpn = match protocol {
        TracingProtocol::Grpc => "h2",
        TracingProtocol::Http => "http/1.1",
    };
    let validation = ValidationContextType::CombinedValidationContext(validation);
    tls::client(&collector.name, alpn, Vec::new(), validation)
}

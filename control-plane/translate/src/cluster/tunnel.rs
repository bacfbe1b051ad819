//! The Envoy cluster behind the tunnels' port: the listener inside Envoy.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::envoy_internal_address::AddressNameSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, EnvoyInternalAddress, TransportSocket, address, transport_socket,
};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use envoy_types::pb::envoy::extensions::transport_sockets::internal_upstream::v3::InternalUpstreamTransport;
use envoy_types::pb::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use envoy_types::util::pack_any;
use portcullis_api::Settings;
use prost::Name;

use super::endpoints;
use super::{BUFFER_LIMIT, CONNECT_TIMEOUT};
use crate::names::{ResourceNames, parts, stat_name};
use crate::proto::{seconds, uint};
use crate::resource::Resource;

/// The cluster, if there are tunnels.
pub(crate) fn tunnel(settings: &Settings) -> Option<Resource> {
    settings.tunnel.as_ref()?;
    let name = ResourceNames::gateway(&settings.instance).part(parts::TUNNEL);
    let listener = ResourceNames::listener().part(parts::TUNNELLED_LISTENER);
    let internal = EnvoyInternalAddress {
        address_name_specifier: Some(AddressNameSpecifier::ServerListenerName(listener)),
        ..Default::default()
    };
    let address = Address { address: Some(address::Address::EnvoyInternalAddress(internal)) };
    let endpoint = Endpoint { address: Some(address), ..Default::default() };
    let endpoint =
        LbEndpoint { host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(endpoint)), ..Default::default() };
    let cluster = Cluster {
        alt_stat_name: stat_name(&name),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into())),
        load_assignment: Some(ClusterLoadAssignment {
            cluster_name: name.clone(),
            endpoints: vec![LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..Default::default() }],
            ..Default::default()
        }),
        connect_timeout: Some(seconds(CONNECT_TIMEOUT)),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        circuit_breakers: Some(endpoints::circuit_breakers(&settings.limits)),
        // It carries what the port's filter hands over, and has a connection for each of its values.
        transport_socket: Some(socket(
            "internal_upstream",
            InternalUpstreamTransport {
                transport_socket: Some(socket("raw_buffer", RawBuffer {})),
                ..Default::default()
            },
        )),
        name: name.clone(),
        ..Default::default()
    };
    Some(Resource::new(name, &cluster))
}

fn socket<M: Name>(name: &str, config: M) -> TransportSocket {
    TransportSocket {
        name: format!("envoy.transport_sockets.{name}"),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack_any(config))),
    }
}

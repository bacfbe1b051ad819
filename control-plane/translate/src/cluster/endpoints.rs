use std::collections::{BTreeMap, HashMap};

use envoy_types::pb::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use envoy_types::pb::envoy::config::cluster::v3::load_balancing_policy::Policy;
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, LoadBalancingPolicy};
use envoy_types::pb::envoy::config::core::v3::{Locality, Metadata};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint as EnvoyEndpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use envoy_types::pb::envoy::extensions::load_balancing_policies::common::v3::locality_lb_config::zone_aware_lb_config::ForceLocalZone;
use envoy_types::pb::envoy::extensions::load_balancing_policies::common::v3::locality_lb_config::{
    LocalityConfigSpecifier, ZoneAwareLbConfig,
};
use envoy_types::pb::envoy::extensions::load_balancing_policies::common::v3::{LocalityLbConfig, SlowStartConfig};
use envoy_types::pb::envoy::extensions::load_balancing_policies::least_request::v3::LeastRequest;
use envoy_types::pb::envoy::extensions::load_balancing_policies::random::v3::Random;
use envoy_types::pb::envoy::extensions::load_balancing_policies::round_robin::v3::RoundRobin;
use envoy_types::pb::google::protobuf::{Struct, UInt64Value, Value, value};
use portcullis_api::{Endpoint, Limits, Server, ServerHost, Strategy};
use portcullis_filter_config::names;

use crate::names::Group;
use crate::proto::{extension, ip_socket, seconds, socket, uint};

/// The endpoints of a group, by zone. A group without any is there too: its requests are answered 503.
pub(super) fn assignment(name: String, group: &Group) -> ClusterLoadAssignment {
    let mut zones: BTreeMap<&str, Vec<LbEndpoint>> = BTreeMap::new();
    for server in &group.servers {
        zones.entry(&server.zone).or_default().push(lb_endpoint(server, group.strategy));
    }
    let endpoints = zones.into_iter().map(|(zone, lb_endpoints)| LocalityLbEndpoints {
        locality: (!zone.is_empty()).then(|| Locality { zone: zone.to_owned(), ..Default::default() }),
        lb_endpoints,
        ..Default::default()
    });
    ClusterLoadAssignment { cluster_name: name, endpoints: endpoints.collect(), ..Default::default() }
}

fn lb_endpoint(server: &Server, strategy: Strategy) -> LbEndpoint {
    let endpoint = &server.endpoint;
    let address = match &endpoint.host {
        ServerHost::Ip(ip) => ip_socket(*ip, endpoint.port),
        ServerHost::Dns(name) => socket(name, endpoint.port),
    };
    let endpoint_config = EnvoyEndpoint { address: Some(address), ..Default::default() };
    LbEndpoint {
        host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(endpoint_config)),
        metadata: Some(metadata(endpoint)),
        load_balancing_weight: weight(server, strategy).map(uint),
        ..Default::default()
    }
}

/// A server's weight, if it is not that of all. With weights Envoy's `LeastRequest` does not pick the better of two: it divides each
/// weight by what the server runs, so that one that has just come back, without watches, would get every request. `Random` knows none.
fn weight(server: &Server, strategy: Strategy) -> Option<u32> {
    (strategy == Strategy::RoundRobin && server.has_weight()).then_some(server.weight)
}

/// Metadata by which the filter knows the server of a stream, also where Envoy resolves the name itself.
fn metadata(endpoint: &Endpoint) -> Metadata {
    let value = Value { kind: Some(value::Kind::StringValue(endpoint.to_string())) };
    // One entry each, so that maps without order have one encoding.
    let server = Struct { fields: HashMap::from([(names::HOST_SERVER.to_owned(), value)]) };
    Metadata { filter_metadata: HashMap::from([(names::HOST.to_owned(), server)]), ..Default::default() }
}

/// How long a server that has become healthy gets fewer requests than the others, seconds.
const SLOW_START: u64 = 10;

/// Envoy's own defaults (1,024) would refuse the watches of a middling cluster.
pub(super) fn circuit_breakers(limits: &Limits) -> CircuitBreakers {
    CircuitBreakers {
        thresholds: vec![Thresholds {
            max_connections: Some(uint(limits.max_connections)),
            max_requests: Some(uint(limits.max_requests)),
            max_pending_requests: Some(uint(limits.max_pending_requests)),
            // A server that is gone strikes everything that is under way to it at once, and every read of that is asked
            // again elsewhere. A budget would refuse most of it; each request is repeated twice at most.
            max_retries: Some(uint(limits.max_requests)),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// `LeastRequest` picks the better of two at random, Envoy's default, and not the best of all: a server that has just come
/// back runs no watches yet, and would get every request until it has as many as the others. For the same reason it has no
/// slow start: with it Envoy would weigh servers by what they run, and go on so until the next change of their health.
pub(super) fn load_balancing(strategy: Strategy) -> LoadBalancingPolicy {
    let locality_lb_config = Some(own_zone_first());
    let policy = match strategy {
        Strategy::RoundRobin => extension(
            "envoy.load_balancing_policies.round_robin",
            RoundRobin { locality_lb_config, slow_start_config: Some(slow_start()) },
        ),
        Strategy::LeastRequest => extension(
            "envoy.load_balancing_policies.least_request",
            LeastRequest { locality_lb_config, ..Default::default() },
        ),
        Strategy::Random => extension("envoy.load_balancing_policies.random", Random { locality_lb_config }),
    };
    LoadBalancingPolicy { policies: vec![Policy { typed_extension_config: Some(policy) }] }
}

/// A server's part of the requests grows with the time since it became healthy, from a tenth.
fn slow_start() -> SlowStartConfig {
    SlowStartConfig { slow_start_window: Some(seconds(SLOW_START)), ..Default::default() }
}

/// An Envoy that has a zone uses the healthy servers of its zone, if there are any, and else all. Without zones this does
/// nothing; it is always here, so that zones are a matter of endpoints alone.
fn own_zone_first() -> LocalityLbConfig {
    let zone_aware = ZoneAwareLbConfig {
        min_cluster_size: Some(UInt64Value { value: 1 }),
        force_local_zone: Some(ForceLocalZone { min_size: Some(uint(1)) }),
        ..Default::default()
    };
    LocalityLbConfig { locality_config_specifier: Some(LocalityConfigSpecifier::ZoneAwareLbConfig(zone_aware)) }
}

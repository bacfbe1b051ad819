use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint as EnvoyEndpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use portcullis_api::{Endpoint, Host};

use crate::group::Group;
use crate::proto::{ip_socket, socket};

/// The endpoints of a group. A group without any is there too: its requests are answered 503.
pub(super) fn assignment(name: String, group: &Group) -> ClusterLoadAssignment {
    let lb_endpoints: Vec<_> = group.endpoints.iter().map(lb_endpoint).collect();
    let endpoints = if lb_endpoints.is_empty() {
        Vec::new()
    } else {
        vec![LocalityLbEndpoints { lb_endpoints, ..Default::default() }]
    };
    ClusterLoadAssignment { cluster_name: name, endpoints, ..Default::default() }
}

fn lb_endpoint(endpoint: &Endpoint) -> LbEndpoint {
    let address = match &endpoint.host {
        Host::Ip(ip) => ip_socket(*ip, endpoint.port),
        Host::Dns(name) => socket(name, endpoint.port),
    };
    let endpoint = EnvoyEndpoint { address: Some(address), ..Default::default() };
    LbEndpoint { host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(endpoint)), ..Default::default() }
}

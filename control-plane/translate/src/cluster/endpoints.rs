use std::collections::{BTreeMap, HashMap};

use envoy_types::pb::envoy::config::core::v3::{Locality, Metadata};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint as EnvoyEndpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use envoy_types::pb::google::protobuf::{Struct, Value, value};
use portcullis_api::{Endpoint, Host};
use portcullis_filter_config::names;

use crate::group::Group;
use crate::proto::{ip_socket, socket};

/// The endpoints of a group, by zone. A group without any is there too: its requests are answered 503.
pub(super) fn assignment(name: String, group: &Group) -> ClusterLoadAssignment {
    let mut zones: BTreeMap<&str, Vec<LbEndpoint>> = BTreeMap::new();
    for server in &group.servers {
        zones.entry(&server.zone).or_default().push(lb_endpoint(&server.endpoint));
    }
    let endpoints = zones.into_iter().map(|(zone, lb_endpoints)| LocalityLbEndpoints {
        locality: (!zone.is_empty()).then(|| Locality { zone: zone.to_owned(), ..Default::default() }),
        lb_endpoints,
        ..Default::default()
    });
    ClusterLoadAssignment { cluster_name: name, endpoints: endpoints.collect(), ..Default::default() }
}

fn lb_endpoint(endpoint: &Endpoint) -> LbEndpoint {
    let address = match &endpoint.host {
        Host::Ip(ip) => ip_socket(*ip, endpoint.port),
        Host::Dns(name) => socket(name, endpoint.port),
    };
    let endpoint_config = EnvoyEndpoint { address: Some(address), ..Default::default() };
    LbEndpoint {
        host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(endpoint_config)),
        metadata: Some(metadata(endpoint)),
        ..Default::default()
    }
}

/// Metadata by which the filter knows the server of a stream, also where Envoy resolves the name itself.
fn metadata(endpoint: &Endpoint) -> Metadata {
    let value = Value { kind: Some(value::Kind::StringValue(endpoint.to_string())) };
    // One entry each, so that maps without order have one encoding.
    let server = Struct { fields: HashMap::from([(names::HOST_SERVER.to_owned(), value)]) };
    Metadata { filter_metadata: HashMap::from([(names::HOST.to_owned(), server)]), ..Default::default() }
}

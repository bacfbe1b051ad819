use std::net::SocketAddr;

use serde_json::{Value, json};

/// The bootstrap of an Envoy that follows another project's control plane by delta xDS, over one stream with these headers. `plane` is
/// the name and the address of its cluster, `tls` the transport socket; null for clear text.
pub(crate) fn foreign_bootstrap(
    node: &Value,
    admin: SocketAddr,
    plane: (&str, &Value),
    tls: &Value,
    headers: &Value,
) -> Value {
    let (cluster, address) = plane;
    let ads = json!({"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"});
    json!({
        "node": node,
        "admin": {"address": socket_address(admin)},
        "dynamic_resources": {
            "lds_config": ads,
            "cds_config": ads,
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": cluster}, "initial_metadata": headers}],
            },
        },
        "static_resources": {"clusters": [{
            "name": cluster,
            "type": "STATIC",
            "connect_timeout": "10s",
            "load_assignment": {"cluster_name": cluster, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]},
            "transport_socket": tls,
            "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }},
        }]},
    })
}

/// An address in Envoy's configuration.
pub(crate) fn socket_address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

use std::net::SocketAddr;

use serde_json::{Value, json};

/// The cluster with this Envoy as its only member.
const SELF: &str = "portcullis-self";

/// Adds the zone of this Envoy. It prefers servers of its own zone only if it knows a cluster of Envoys with a member there;
/// one is enough, and that is Envoy itself. Nothing is ever sent to it, so any address will do.
pub(super) fn add(bootstrap: &mut Value, zone: &str, address: &SocketAddr) {
    let locality = json!({"zone": zone});
    let address = json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}});
    let cluster = json!({
        "name": SELF,
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": SELF,
            "endpoints": [{"locality": locality, "lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    });
    if let Some(node) = bootstrap.get_mut("node").and_then(Value::as_object_mut) {
        node.insert("locality".to_owned(), locality);
    }
    if let Some(clusters) = bootstrap.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut) {
        clusters.push(cluster);
    }
    if let Some(fields) = bootstrap.as_object_mut() {
        fields.insert("cluster_manager".to_owned(), json!({"local_cluster_name": SELF}));
    }
}

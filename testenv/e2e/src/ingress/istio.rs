//! istiod's translation of a Gateway, a VirtualService and a DestinationRule, by hand: as much of it as the objects of
//! `envoy/gardener` use, without telemetry, and with mesh option `pathNormalization: NONE`.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::objects::{list, of_kind, text};

/// The prefix of the names that secrets have in Envoy.
pub(super) const SECRET: &str = "kubernetes://";

const HCM: &str = "envoy.filters.network.http_connection_manager";

/// The filter chains of a Gateway, each with its routes inside; `stat_prefix` names the Gateway.
pub(super) fn chains(objects: &[Value]) -> Vec<Value> {
    let gateways = of_kind(objects, "Gateway");
    gateways
        .flat_map(|gateway| list(&gateway["spec"]["servers"]).map(|server| chain(objects, gateway, server)))
        .collect()
}

fn chain(objects: &[Value], gateway: &Value, server: &Value) -> Value {
    let metadata = &gateway["metadata"];
    let name = format!(
        "https.443.{}.{}.{}",
        text(&server["port"]["name"]),
        text(&metadata["name"]),
        text(&metadata["namespace"])
    );
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "use_remote_address": true,
        "forward_client_cert_details": "SANITIZE_SET",
        "set_current_client_cert_details": {"subject": true, "cert": true, "dns": true, "uri": true},
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "stream_idle_timeout": "0s",
        // Of the seed: EnvoyFilter istio-ingressgateway.
        "http2_protocol_options": {"max_concurrent_streams": 100, "initial_stream_window_size": 65536, "initial_connection_window_size": 1_048_576},
        // In Istio by RDS.
        "route_config": {
            "name": name,
            "ignore_port_in_host_matching": true,
            "virtual_hosts": list(&server["hosts"]).map(|host| virtual_host(objects, host)).collect::<Vec<_>>(),
        },
        "http_filters": [hsts(), {"name": "envoy.filters.http.router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
    });
    json!({
        "filter_chain_match": {"server_names": server["hosts"]},
        "transport_socket": downstream_tls(text(&server["tls"]["credentialName"])),
        "filters": [{"name": HCM, "typed_config": manager}],
    })
}

/// Of the seed, where it is configured: EnvoyFilter hsts.
fn hsts() -> Value {
    let code = r#"function envoy_on_response(handle) handle:headers():replace("strict-transport-security", "max-age=31536000") end"#;
    json!({"name": "envoy.filters.http.lua", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": {"inline_string": code},
    }})
}

/// The VirtualService has one route, a direct response.
fn virtual_host(objects: &[Value], host: &Value) -> Value {
    let mut services = of_kind(objects, "VirtualService");
    let route = services.find(|service| list(&service["spec"]["hosts"]).any(|one| one == host));
    let route = route.map_or(&Value::Null, |service| &service["spec"]["http"][0]);
    let response = &route["directResponse"];
    let headers = route["headers"]["response"]["set"].as_object().into_iter().flatten();
    let headers = headers.map(
        |(key, value)| json!({"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}),
    );
    json!({
        "name": format!("{}:443", text(host)),
        "domains": [host],
        "include_request_attempt_count": true,
        "routes": [{
            "match": {"prefix": "/"},
            "direct_response": {"status": response["status"], "body": {"inline_string": response["body"]["string"]}},
            "response_headers_to_add": headers.collect::<Vec<_>>(),
        }],
    })
}

fn downstream_tls(credential: &str) -> Value {
    json!({"name": "envoy.transport_sockets.tls", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "require_client_certificate": false,
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_certificate_sds_secret_configs": [{"name": format!("{SECRET}{credential}")}],
            "combined_validation_context": {
                "default_validation_context": {},
                "validation_context_sds_secret_config": {"name": format!("{SECRET}{credential}-cacert")},
            },
        },
    }})
}

/// The Envoy clusters of a DestinationRule: without subset, and of each.
pub(super) fn clusters(objects: &[Value], servers: &[SocketAddr]) -> Vec<Value> {
    of_kind(objects, "DestinationRule").flat_map(|rule| clusters_of(&rule["spec"], servers)).collect()
}

fn clusters_of(rule: &Value, servers: &[SocketAddr]) -> Vec<Value> {
    let whole = std::iter::once(("", &rule["trafficPolicy"]));
    let subsets = list(&rule["subsets"]).map(|subset| (text(&subset["name"]), &subset["trafficPolicy"]));
    whole.chain(subsets).map(|(subset, policy)| cluster(text(&rule["host"]), subset, policy, servers)).collect()
}

fn cluster(host: &str, subset: &str, policy: &Value, servers: &[SocketAddr]) -> Value {
    let name = format!("outbound|443|{subset}|{host}");
    let endpoint = |server: &SocketAddr| {
        let address = json!({"address": server.ip().to_string(), "port_value": server.port()});
        json!({"endpoint": {"address": {"socket_address": address}}})
    };
    let tcp = &policy["connectionPool"]["tcp"];
    let is_h2 = policy["connectionPool"]["http"]["h2UpgradePolicy"] == "UPGRADE";
    let protocol = if is_h2 { "http2_protocol_options" } else { "http_protocol_options" };
    json!({
        "name": name,
        // In Istio EDS.
        "type": "STATIC",
        "lb_policy": text(&policy["loadBalancer"]["simple"]),
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": servers.iter().map(endpoint).collect::<Vec<_>>()}]},
        "circuit_breakers": {"thresholds": [{
            "max_connections": u32::MAX, "max_pending_requests": u32::MAX, "max_requests": u32::MAX, "max_retries": u32::MAX,
        }]},
        "transport_socket": upstream_tls(&policy["tls"], is_h2),
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "common_http_protocol_options": {"max_connection_duration": tcp["maxConnectionDuration"]},
            "explicit_http_config": {protocol: {}},
        }},
    })
}

fn upstream_tls(tls: &Value, is_h2: bool) -> Value {
    let credential = text(&tls["credentialName"]);
    let certificate = json!({"name": format!("{SECRET}{credential}")});
    let names = list(&tls["subjectAltNames"]).map(|name| json!({"san_type": "DNS", "matcher": {"exact": name}}));
    json!({"name": "envoy.transport_sockets.tls", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": tls["sni"],
        "common_tls_context": {
            "alpn_protocols": if is_h2 { vec!["h2"] } else { Vec::new() },
            "tls_certificate_sds_secret_configs": if tls["mode"] == "MUTUAL" { vec![certificate] } else { Vec::new() },
            "combined_validation_context": {
                "default_validation_context": {"match_typed_subject_alt_names": names.collect::<Vec<_>>()},
                "validation_context_sds_secret_config": {"name": format!("{SECRET}{credential}-cacert")},
            },
        },
    }})
}

//! The files and the control plane's defaults are the same, but for what each gateway has of its own.

use std::collections::BTreeMap;

use portcullis_e2e::GatewayOptions;
use portcullis_filter_config::{GENERATION_MARK, without_generation};
use portcullis_harness::envoy::Envoy;
use serde_json::{Value, json};

use super::Plain;
use crate::fixture::{NAME, StubFixture};

/// The first object of a type.
fn find<'a>(value: &'a Value, kind: &str) -> Option<&'a Value> {
    let is_it = value["@type"].as_str().is_some_and(|found| found.ends_with(kind));
    match value {
        _ if is_it => Some(value),
        Value::Object(fields) => fields.values().find_map(|field| find(field, kind)),
        Value::Array(items) => items.iter().find_map(|item| find(item, kind)),
        _ => None,
    }
}

/// The filter chain of the cluster, as Envoy has it.
fn chain(envoy: &Envoy) -> Value {
    let dump = envoy.admin().json("/config_dump?resource=dynamic_listeners").unwrap();
    let listener = find(&dump, "envoy.config.listener.v3.Listener").unwrap();
    let chains = listener["filter_chains"].as_array().unwrap();
    let own = |chain: &&Value| chain["filter_chain_match"]["server_names"] == json!([NAME]);
    chains.iter().find(own).unwrap().clone()
}

fn cluster(envoy: &Envoy, pool: &str) -> Value {
    let dump = envoy.admin().json("/config_dump?resource=dynamic_active_clusters").unwrap();
    let clusters = dump["configs"].as_array().unwrap().iter().map(|config| &config["cluster"]);
    let mut own = clusters
        .filter(|cluster| cluster["name"].as_str().is_some_and(|name| without_generation(name).ends_with(pool)));
    own.next().unwrap().clone()
}

const MANAGER: [&str; 16] = [
    "codec_type",
    "use_remote_address",
    "internal_address_config",
    "forward_client_cert_details",
    "normalize_path",
    "merge_slashes",
    "path_with_escaped_slashes_action",
    "server_header_transformation",
    "stream_idle_timeout",
    "request_headers_timeout",
    "max_request_headers_kb",
    "common_http_protocol_options",
    "http2_protocol_options",
    "upgrade_configs",
    "early_header_mutation_extensions",
    "strip_trailing_host_dot",
];
const TLS: [&str; 3] =
    ["require_client_certificate", "disable_stateful_session_resumption", "disable_stateless_session_resumption"];
const CLUSTER: [&str; 7] = [
    "connect_timeout",
    "per_connection_buffer_limit_bytes",
    "circuit_breakers",
    "outlier_detection",
    "ignore_health_on_host_removal",
    "upstream_connection_options",
    "typed_extension_protocol_options",
];

/// Without what each gateway has of its own: host names and its name in `Via`.
fn health_check(cluster: &Value) -> Value {
    let mut check = cluster["health_checks"][0].clone();
    check["http_health_check"]["host"].take();
    check["http_health_check"]["request_headers_to_add"][0]["header"]["value"].take();
    check
}

/// A destination without the generation, which is between the group and the pool. Files have none.
fn plain_destination(destination: &str) -> String {
    let Some((group, rest)) = destination.split_once(GENERATION_MARK) else { return destination.to_owned() };
    format!("{group}{}", rest.get(rest.find('.').unwrap()..).unwrap())
}

/// Destinations with what their routes allow.
fn routes(envoy: &Envoy) -> BTreeMap<String, [Value; 4]> {
    let dump = envoy.admin().json("/config_dump?resource=dynamic_route_configs").unwrap();
    let routes = find(&dump, "envoy.config.route.v3.RouteConfiguration").unwrap();
    let map = &routes["virtual_hosts"][0]["matcher"]["matcher_tree"]["exact_match_map"]["map"];
    let of = |entry: &Value| {
        let route = &entry["action"]["typed_config"]["route"];
        let (retries, number) = (&route["retry_policy"]["retry_on"], &route["retry_policy"]["num_retries"]);
        [&route["timeout"], &route["idle_timeout"], retries, number].map(Value::clone)
    };
    map.as_object().unwrap().iter().map(|(destination, entry)| (plain_destination(destination), of(entry))).collect()
}

/// A reminder to compare the two when one of them changes.
#[test]
fn files_say_what_the_control_plane_says() {
    let plain = Plain::start("impersonate", None, |_| {});
    let fixture = StubFixture::start("plain-and-served", &GatewayOptions::default());
    let (plain, served) = (plain.gateway.envoy(), fixture.gateway.envoy());
    let (chain, expected) = (chain(plain), chain(served));
    let manager = "HttpConnectionManager";
    let (found, wanted) = (find(&chain, manager).unwrap(), find(&expected, manager).unwrap());
    for field in MANAGER {
        assert_eq!(found[field], wanted[field], "{field}");
    }
    assert_eq!(found["http_filters"][1], wanted["http_filters"][1], "the router");
    let (found, wanted) =
        (find(&chain, "DownstreamTlsContext").unwrap(), find(&expected, "DownstreamTlsContext").unwrap());
    for field in TLS {
        assert_eq!(found[field], wanted[field], "{field}");
    }
    // The files have the module's validator: the control plane's way needs one secret more for each cluster.
    for field in ["tls_params", "alpn_protocols"] {
        assert_eq!(found["common_tls_context"][field], wanted["common_tls_context"][field], "{field}");
    }
    assert_eq!(routes(plain), routes(served));
    for pool in ["all.h2", "all.upgrade", "all.anonymous"] {
        let (found, wanted) = (cluster(plain, pool), cluster(served, pool));
        for field in CLUSTER {
            assert_eq!(found[field], wanted[field], "{pool}: {field}");
        }
        let context = |cluster: &Value| {
            let context = &find(cluster, "UpstreamTlsContext").unwrap()["common_tls_context"];
            (context["alpn_protocols"].clone(), context["tls_params"].clone())
        };
        assert_eq!(context(&found), context(&wanted), "{pool}");
        assert_eq!(health_check(&found), health_check(&wanted), "{pool}");
        let panic = |cluster: &Value| cluster["common_lb_config"]["healthy_panic_threshold"].clone();
        assert_eq!(panic(&found), panic(&wanted), "{pool}");
    }
}

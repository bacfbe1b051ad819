//! A bare Envoy's configuration, made from the gateway's own, so that the two differ by the filter and nothing else; and what other
//! cases differ by from one of the two.

use portcullis_harness::certs::{Ca, Identity};
use serde_json::{Map, Value, json};

use crate::case::Case;
use crate::error::BenchError;
use crate::{changed, filtered, lua};

/// The host name of the cluster.
pub(crate) const NAME: &str = "prod.example.com";

/// The secrets that Envoy hides in its configuration dump.
pub(crate) struct Secrets<'a> {
    pub(crate) serving: &'a Identity,
    pub(crate) upstream: &'a Identity,
    pub(crate) client_ca: &'a Ca,
    pub(crate) server_ca: &'a Ca,
}

/// The route of the dump that a read takes.
const ROUTE: &str = "h2.read";

/// The bootstrap of a bare Envoy: listener, clusters and the route of a read of `dump`, as static resources.
pub(crate) fn bootstrap(case: Case, gateway: &Value, dump: &Value, secrets: &Secrets<'_>) -> Result<Value, BenchError> {
    let mut route = find(dump, &|value| {
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        name.ends_with(ROUTE) && value.get("route").is_some()
    })
    .map(plain)
    .ok_or(BenchError::Lacks("route of a read"))?;
    if case == Case::Lines
        && let Some(fields) = route.as_object_mut()
    {
        fields.insert("request_headers_to_add".to_owned(), lines());
    }
    let routes = match case {
        Case::Forwarded => resource(dump, "/dynamic_route_configs", "/route_config").next().map(plain),
        Case::Lua => Some(lua::routes(&route, NAME)),
        case if case.exports() => Some(filtered::by_request_info(&route, NAME, case)),
        _ => Some(json!({
            "name": "bare",
            "virtual_hosts": [{"name": "bare", "domains": ["*"], "routes": [route]}],
        })),
    };
    let routes = routes.ok_or(BenchError::Lacks("routes"))?;
    let mut listener = resource(dump, "/dynamic_listeners", "/active_state/listener").next().map(plain);
    let listener = listener.as_mut().ok_or(BenchError::Lacks("listener"))?;
    change(listener, &mut |object| downstream(object, case, &routes, secrets));
    let mut assignments: Vec<Value> =
        resource(dump, "/dynamic_endpoint_configs", "/endpoint_config").map(plain).collect();
    // Fields that Envoy computes itself, and a weight that it prints and does not accept.
    let found_out = |object: &mut Map<String, Value>| {
        object.remove("health_status");
        object.remove("load_balancing_weight");
    };
    assignments.iter_mut().for_each(|assignment| change(assignment, &mut { found_out }));
    let mut clusters: Vec<Value> = resource(dump, "/dynamic_active_clusters", "/cluster").map(plain).collect();
    for cluster in &mut clusters {
        change(cluster, &mut |object| upstream(object, &assignments, secrets));
    }
    if clusters.is_empty() {
        return Err(BenchError::Lacks("cluster"));
    }
    let mut resources = json!({"listeners": [listener], "clusters": clusters});
    change(&mut resources, &mut |object| changed::change(case, object));
    let mut bootstrap = gateway.clone();
    if let Some(object) = bootstrap.as_object_mut() {
        object.remove("dynamic_resources");
        object.insert("static_resources".to_owned(), resources);
    }
    Ok(bootstrap)
}

/// Takes out what the gateway adds to a connection manager and to TLS.
fn downstream(object: &mut Map<String, Value>, case: Case, routes: &Value, secrets: &Secrets<'_>) {
    if object.remove("rds").is_some() {
        object.insert("route_config".to_owned(), routes.clone());
        match case {
            Case::Forwarded => filtered::certificate_by_header(object),
            _ => without_filter(object, case),
        }
    }
    if case == Case::Forwarded {
        filtered::read_header(object);
    }
    if object.remove("tls_certificate_sds_secret_configs").is_some() {
        object.insert("tls_certificates".to_owned(), json!([certificate(secrets.serving)]));
    }
    // Envoy's own verification: once for a connection.
    if object.remove("validation_context_sds_secret_config").is_some() {
        let trust = json!({"trusted_ca": {"inline_string": secrets.client_ca.pem()}});
        object.insert("validation_context".to_owned(), trust);
    }
    if object.contains_key("filter_chain_match")
        && let Some(filters) = object.get_mut("filters").and_then(Value::as_array_mut)
    {
        filters.retain(|filter| filter.get("name").and_then(Value::as_str) != Some(RECORDER));
    }
}

/// The network filter that keeps the client's certificate for the filter.
const RECORDER: &str = "envoy.filters.network.set_filter_state";

/// Takes the filter and what belongs to it out of a connection manager; a case may put something in its place.
fn without_filter(manager: &mut Map<String, Value>, case: Case) {
    if case != Case::Early {
        manager.remove("early_header_mutation_extensions");
    }
    manager.remove("forward_client_cert_matcher");
    if case == Case::Header {
        filtered::certificate_by_header(manager);
    }
    if let Some(filters) = manager.get_mut("http_filters").and_then(Value::as_array_mut) {
        filters.retain(|filter| filter.get("name").and_then(Value::as_str) == Some("envoy.filters.http.router"));
        match case {
            Case::Idle => filters.insert(0, idle()),
            Case::Lua => filters.insert(0, lua::filter()),
            case if case.exports() => filters.insert(0, filtered::filter()),
            _ => {}
        }
    }
}

/// Puts certificates and endpoints where the gateway has names of them.
fn upstream(object: &mut Map<String, Value>, assignments: &[Value], secrets: &Secrets<'_>) {
    if object.remove("tls_certificate_sds_secret_configs").is_some() {
        object.insert("tls_certificates".to_owned(), json!([certificate(secrets.upstream)]));
    }
    if let Some(combined) = object.remove("combined_validation_context") {
        let mut context = combined.get("default_validation_context").cloned().unwrap_or_default();
        let trust = json!({"inline_string": secrets.server_ca.pem()});
        context.as_object_mut().map(|fields| fields.insert("trusted_ca".to_owned(), trust));
        object.insert("validation_context".to_owned(), context);
    }
    let Some(eds) = object.remove("eds_cluster_config") else { return };
    let named = |assignment: &&Value| assignment.get("cluster_name") == eds.get("service_name");
    if let Some(assignment) = assignments.iter().find(named) {
        object.insert("load_assignment".to_owned(), assignment.clone());
        object.insert("type".to_owned(), json!("STATIC"));
    }
}

/// The filter of `filters/envoy-abi/examples/idle.rs`.
fn idle() -> Value {
    json!({
        "name": "idle",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
            "dynamic_module_config": {"name": "idle", "do_not_close": true},
            "filter_name": "idle",
        },
    })
}

/// The headers that the filter adds for the user of the certificate.
fn lines() -> Value {
    let digest = format!("X509SHA256={}", "0123456789abcdef".repeat(4));
    let lines = [
        ("impersonate-user", "alice"),
        ("impersonate-group", "developers"),
        ("impersonate-extra-authentication.kubernetes.io%2fcredential-id", &digest),
    ];
    lines.map(|(key, value)| json!({"header": {"key": key, "value": value}})).into_iter().collect()
}

fn certificate(identity: &Identity) -> Value {
    json!({
        "certificate_chain": {"inline_string": identity.pem()},
        "private_key": {"inline_string": identity.key_pem()},
    })
}

/// The resources of one list of the dump.
fn resource<'a>(dump: &'a Value, list: &'static str, inner: &'static str) -> impl Iterator<Item = &'a Value> {
    let configs = dump.get("configs").and_then(Value::as_array).into_iter().flatten();
    let items = configs.filter_map(move |config| config.pointer(list).and_then(Value::as_array)).flatten();
    items.filter_map(move |item| item.pointer(inner))
}

/// The message without the type that it has inside an `Any`.
fn plain(message: &Value) -> Value {
    let mut plain = message.clone();
    plain.as_object_mut().map(|fields| fields.remove("@type"));
    plain
}

/// Changes every object, the outer ones first.
fn change(value: &mut Value, with: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            with(object);
            object.values_mut().for_each(|value| change(value, with));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| change(value, with)),
        _ => {}
    }
}

fn find<'a>(value: &'a Value, is: &impl Fn(&Value) -> bool) -> Option<&'a Value> {
    if is(value) {
        return Some(value);
    }
    match value {
        Value::Object(object) => object.values().find_map(|value| find(value, is)),
        Value::Array(items) => items.iter().find_map(|value| find(value, is)),
        _ => None,
    }
}

//! Envoys that run a part of the filter which no control plane asks for.

use portcullis_filter_config::{CONFIG_VERSION, names};
use serde_json::{Map, Value, json};

use crate::case::Case;

const MODULE: &str = "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3";
const STRING: &str = "type.googleapis.com/google.protobuf.StringValue";

/// The filter in a listener.
pub(crate) fn filter() -> Value {
    let config = json!({"version": CONFIG_VERSION, "instance": "bench"});
    json!({
        "name": names::HTTP_FILTER,
        "typed_config": {
            "@type": format!("{MODULE}.DynamicModuleFilter"),
            "dynamic_module_config": module(),
            "filter_name": names::HTTP_FILTER,
            "filter_config": {"@type": STRING, "value": config.to_string()},
        },
    })
}

fn module() -> Value {
    json!({"name": "portcullis", "do_not_close": true, "metrics_namespace": "portcullis"})
}

/// Request info alone (`envoy/plain/request-info`), with one route by its attributes, and the response without them.
pub(crate) fn by_request_info(route: &Value, host: &str, case: Case) -> Value {
    let export = match case {
        Case::AllRequestInfo => json!({}),
        _ => json!({"fields": ["class", "verb"], "metadata": false}),
    };
    let mut route = route.clone();
    let class = json!({"key": "portcullis.request.class", "string_match": {"exact": "read"}});
    if let Some(fields) = route.as_object_mut() {
        fields.insert("match".to_owned(), json!({"prefix": "/", "filter_state": [class]}));
    }
    let config = json!({
        "version": CONFIG_VERSION, "name": host, "authorities": [host],
        "upstreamIdentity": "ClientCredential", "policies": "All", "requestInfo": export,
    });
    let per_route = json!({
        "@type": format!("{MODULE}.DynamicModuleFilterPerRoute"),
        "dynamic_module_config": module(),
        "filter_config": {"@type": STRING, "value": config.to_string()},
    });
    let undecided = json!({"match": {"prefix": "/"}, "direct_response": {"status": 503}});
    json!({
        "name": "request-info",
        "virtual_hosts": [{
            "name": "request-info", "domains": ["*"], "routes": [route, undecided],
            "typed_per_filter_config": {names::HTTP_FILTER: per_route},
        }],
    })
}

/// Has a connection manager write the client's certificate into `x-forwarded-client-cert`.
pub(crate) fn certificate_by_header(manager: &mut Map<String, Value>) {
    manager.remove("forward_client_cert_matcher");
    manager.insert("forward_client_cert_details".to_owned(), json!("SANITIZE_SET"));
    manager.insert("set_current_client_cert_details".to_owned(), json!({"chain": true}));
}

/// Has the filter read it there. Leaves what is not the filter's configuration.
pub(crate) fn read_header(object: &mut Map<String, Value>) {
    if object.get("filter_name").is_none_or(|name| name != names::HTTP_FILTER) {
        return;
    }
    let Some(text) = object.get_mut("filter_config").and_then(|config| config.get_mut("value")) else { return };
    let config = text.as_str().and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    if let Some(mut config) = config {
        config.insert("peerSource".to_owned(), json!("ForwardedClientCert"));
        *text = Value::Object(config).to_string().into();
    }
}

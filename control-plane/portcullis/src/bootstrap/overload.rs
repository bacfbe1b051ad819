//! Overload actions, with which Envoy sheds load before the kernel kills it for its memory.

use portcullis_core::observe::catalog::LABELS;
use portcullis_filter_config::{NODE_FILTER, NODE_FILTER_WASM};
use serde_json::{Value, json};

const CONNECTIONS: &str = "envoy.resource_monitors.global_downstream_max_connections";
/// The heap, and not the memory of the cgroup: that counts cached files, which the kernel would give back.
const HEAP: &str = "envoy.resource_monitors.fixed_heap";
/// The smallest class of streams by memory, as a power of two: 128 KiB.
const LEAST_TRACKED: u32 = 17;

/// The overload manager, with a bound of connections and one of the heap's size in bytes, if there is one.
pub(super) fn manager(max_connections: u64, max_heap: Option<u64>) -> Value {
    let connections = monitor(
        CONNECTIONS,
        "downstream_connections.v3.DownstreamConnectionsConfig",
        json!({"max_active_downstream_connections": max_connections}),
    );
    let Some(bytes) = max_heap else { return json!({"resource_monitors": [connections]}) };
    let heap = monitor(HEAP, "fixed_heap.v3.FixedHeapConfig", json!({"max_heap_size_bytes": bytes}));
    json!({
        "refresh_interval": "0.25s",
        "resource_monitors": [connections, heap],
        "actions": [
            at("shrink_heap", 0.85),
            silent_connections(),
            // Of the streams that hold most, as of clients that do not read, more are reset the worse it is.
            action("reset_high_memory_stream", json!({"scaled": {"scaling_threshold": 0.90, "saturation_threshold": 0.98}})),
            at("stop_accepting_requests", 0.95),
            at("stop_accepting_connections", 0.98),
        ],
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": LEAST_TRACKED},
    })
}

fn monitor(name: &str, message: &str, mut config: Value) -> Value {
    if let Some(fields) = config.as_object_mut() {
        let kind = format!("type.googleapis.com/envoy.extensions.resource_monitors.{message}");
        fields.insert("@type".to_owned(), json!(kind));
    }
    json!({"name": name, "typed_config": config})
}

/// A connection on which nothing happens holds memory, too, and costs a stranger no credential. It may do so for an hour, and
/// the shorter the less there is, before anybody is refused a request. Watches and sessions do happen.
fn silent_connections() -> Value {
    let scale = |timer: &str, least: &str| json!({"timer": timer, "min_timeout": least});
    json!({
        "name": "envoy.overload_actions.reduce_timeouts",
        "triggers": [{"name": HEAP, "scaled": {"scaling_threshold": 0.85, "saturation_threshold": 0.92}}],
        "typed_config": {
            "@type": "type.googleapis.com/envoy.config.overload.v3.ScaleTimersOverloadActionConfig",
            "timer_scale_factors":
                [scale("HTTP_DOWNSTREAM_CONNECTION_IDLE", "5s"), scale("TRANSPORT_SOCKET_CONNECT", "3s")],
        },
    })
}

fn at(name: &str, part: f64) -> Value {
    action(name, json!({"threshold": {"value": part}}))
}

/// An action that depends on how full the heap is.
fn action(name: &str, mut trigger: Value) -> Value {
    if let Some(fields) = trigger.as_object_mut() {
        fields.insert("name".to_owned(), json!(HEAP));
    }
    json!({"name": format!("envoy.overload_actions.{name}"), "triggers": [trigger]})
}

/// Additions for an Envoy that runs portcullis.wasm: metadata for the control plane, and the extraction of labels from the
/// names of a VM's metrics.
pub(super) fn add(bootstrap: &mut Value) {
    if let Some(metadata) = bootstrap.pointer_mut("/node/metadata").and_then(Value::as_object_mut) {
        metadata.insert(NODE_FILTER.to_owned(), json!(NODE_FILTER_WASM));
    }
    let tag = |label: &str| json!({"tag_name": label, "regex": format!("^wasmcustom\\..*?(;{label}=([^;]*))")});
    let tags: Vec<_> = LABELS.iter().map(|label| tag(label.name)).collect();
    if let Some(fields) = bootstrap.as_object_mut() {
        fields.insert("stats_config".to_owned(), json!({"stats_tags": tags}));
    }
}

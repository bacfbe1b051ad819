use portcullis_filter_config::{NODE_FILTER, NODE_FILTER_WASM};
use serde_json::{Value, json};

/// Labels of the filter's metrics (`portcullis_core::observe::catalog`).
const LABELS: [&str; 8] = ["cluster", "verb", "resource", "policy", "schema", "decision", "reason", "kind"];

/// Additions for an Envoy that runs portcullis.wasm: metadata for the control plane, and the extraction of labels from the
/// names of a VM's metrics.
pub(super) fn add(bootstrap: &mut Value) {
    if let Some(metadata) = bootstrap.pointer_mut("/node/metadata").and_then(Value::as_object_mut) {
        metadata.insert(NODE_FILTER.to_owned(), json!(NODE_FILTER_WASM));
    }
    let tag = |label: &&str| json!({"tag_name": label, "regex": format!("^wasmcustom\\..*?(;{label}=([^;]*))")});
    let tags: Vec<_> = LABELS.iter().map(tag).collect();
    if let Some(fields) = bootstrap.as_object_mut() {
        fields.insert("stats_config".to_owned(), json!({"stats_tags": tags}));
    }
}

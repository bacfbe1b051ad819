//! The files of `envoy/plain` with portcullis.wasm in the module's place.

use std::path::Path;

use portcullis_harness::Result;
use serde_json::{Map, Value, json};

use crate::plain::PlainFiles;

impl PlainFiles {
    /// Puts portcullis.wasm in the module's place, in `listener.yaml` and `routes.yaml`, as described in `envoy/README.md`.
    ///
    /// # Errors
    /// Reading or writing a file.
    ///
    /// # Panics
    /// If the files are not those of `envoy/plain`: the test's fault.
    pub fn use_wasm(&self, wasm: &Path) -> Result<()> {
        self.edit("listener.yaml", |text| listener(&text, wasm))?;
        self.edit("routes.yaml", |text| routes(&text))
    }
}

const CHAIN: &str = "/resources/0/filter_chains/0";
const HOST: &str = "/resources/0/virtual_hosts/0";

/// A file that the test has not damaged.
struct File(Value);

impl File {
    fn read(text: &str) -> Self {
        #[allow(clippy::expect_used, reason = "a file of ours")]
        File(serde_saphyr::from_str(text).expect("a file of envoy/plain is YAML"))
    }

    /// The members of an object in it.
    fn object(&mut self, pointer: &str) -> &mut Map<String, Value> {
        #[allow(clippy::expect_used, reason = "a file of ours")]
        self.0.pointer_mut(pointer).and_then(Value::as_object_mut).expect("a file of envoy/plain")
    }

    /// Takes the filter's configuration out.
    fn take_config(&mut self, pointer: &str) -> Map<String, Value> {
        std::mem::take(self.object(&format!("{pointer}/filter_config/value")))
    }
}

fn listener(text: &str, wasm: &Path) -> String {
    let mut file = File::read(text);
    let trust = json!({"trust_chain_verification": "ACCEPT_UNTRUSTED"});
    let tls = format!("{CHAIN}/transport_socket/typed_config/common_tls_context");
    file.object(&tls).insert("validation_context".to_owned(), trust);
    let manager = format!("{CHAIN}/filters/0/typed_config");
    let mut config = file.take_config(&format!("{manager}/http_filters/0/typed_config"));
    config.insert("peerSource".to_owned(), json!("ForwardedClientCert"));
    let plugin = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
        "config": {
            "name": "portcullis",
            "configuration": string_value(config),
            "failure_policy": "FAIL_RELOAD",
            "vm_config": {
                "vm_id": "portcullis", "runtime": "envoy.wasm.runtime.v8", "code": {"local": {"filename": wasm}},
            },
        },
    });
    let filter = file.object(&format!("{manager}/http_filters/0"));
    filter.insert("name".to_owned(), json!("envoy.filters.http.wasm"));
    filter.insert("typed_config".to_owned(), plugin);
    let manager = file.object(&manager);
    manager.insert("forward_client_cert_details".to_owned(), json!("SANITIZE_SET"));
    manager.insert("set_current_client_cert_details".to_owned(), json!({"chain": true}));
    names(&file)
}

fn string_value(config: Map<String, Value>) -> Value {
    let text = Value::Object(config).to_string();
    json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text})
}

fn routes(text: &str) -> String {
    let mut file = File::read(text);
    let config = Value::Object(file.take_config(&format!("{HOST}/typed_per_filter_config/portcullis"))).to_string();
    let host = file.object(HOST);
    host.remove("typed_per_filter_config");
    host.insert("metadata".to_owned(), json!({"filter_metadata": {"portcullis": {"config": config}}}));
    names(&file)
}

/// Envoy keeps what a VM writes under another name.
fn names(File(file): &File) -> String {
    let text = file.to_string();
    text.replace("\"portcullis.destination\"", "\"wasm.portcullis.destination\"")
        .replace("\"portcullis.request.", "\"wasm.portcullis.request.")
        .replace("FILTER_STATE(portcullis.", "FILTER_STATE(wasm.portcullis.")
}

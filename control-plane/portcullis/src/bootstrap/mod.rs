mod arguments;
mod network;
mod overload;
mod secrets;
mod statistics;
mod zone;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use arguments::{Bootstrap, FilterBuild};
use portcullis_filter_config::{NODE_CONFIG_VERSION, NODE_GATEWAY, NODE_GATEWAY_ADDRESSES, NODE_INSTANCE};
pub(crate) use secrets::Paths;
use serde_json::{Value, json};

/// Why no bootstrap can be made. The operator has to act.
#[derive(Debug, thiserror::Error)]
enum BootstrapError {
    #[error("cannot write into {0}")]
    Write(PathBuf, #[source] io::Error),
}

pub(crate) fn run(arguments: &Bootstrap) -> ExitCode {
    let directory = arguments.network.xds_sds_dir.as_deref();
    let secrets = match directory.zip(arguments.network.resources()) {
        Some((directory, resources)) => match resources.write(directory) {
            Ok(paths) => Some(paths),
            Err(error) => return crate::fail(&BootstrapError::Write(directory.to_owned(), error)),
        },
        None => None,
    };
    let mut text = format!("{:#}", bootstrap(arguments, arguments.max_heap(), secrets.as_ref()));
    text.push('\n');
    crate::print(&text)
}

/// Envoy's part that cannot come over xDS, for a heap of at most so many bytes. Without `secrets` the certificate for xDS is
/// read at Envoy's start alone.
pub(crate) fn bootstrap(arguments: &Bootstrap, max_heap: Option<u64>, secrets: Option<&Paths>) -> Value {
    let mut bootstrap = common(arguments, max_heap, secrets);
    if let (false, Some(fields)) = (arguments.all_envoy_statistics, bootstrap.as_object_mut()) {
        fields.insert("stats_config".to_owned(), statistics::config());
    }
    if let Some(gateway) = &arguments.gateway
        && let Some(metadata) = bootstrap.pointer_mut("/node/metadata").and_then(Value::as_object_mut)
    {
        metadata.insert(NODE_GATEWAY.to_owned(), json!(gateway));
        let addresses: Vec<String> = arguments.gateway_address.iter().map(ToString::to_string).collect();
        if !addresses.is_empty() {
            metadata.insert(NODE_GATEWAY_ADDRESSES.to_owned(), json!(addresses.join(",")));
        }
    }
    if let Some(instance) = &arguments.instance
        && let Some(metadata) = bootstrap.pointer_mut("/node/metadata").and_then(Value::as_object_mut)
    {
        metadata.insert(NODE_INSTANCE.to_owned(), json!(instance));
    }
    if arguments.filter == FilterBuild::Wasm {
        overload::add(&mut bootstrap);
    }
    if let Some(zone) = &arguments.zone {
        zone::add(&mut bootstrap, zone, &arguments.admin_address);
    }
    bootstrap
}

/// The node, the address of xDS, and the bounds of the whole process.
fn common(arguments: &Bootstrap, max_heap: Option<u64>, secrets: Option<&Paths>) -> Value {
    json!({
        "node": {
            "id": arguments.node_id,
            "cluster": "portcullis",
            "metadata": {NODE_CONFIG_VERSION: arguments.config_version},
        },
        "admin": {"address": socket_address(&arguments.admin_address)},
        // Nothing but the admin page takes statistics; every five seconds those of thousands of pools would hold up xDS.
        "stats_flush_on_admin": true,
        // Else Envoy keeps what it has freed: each listener of thousands of clusters takes twice its size while it is built.
        "memory_allocator_manager": {"bytes_to_release": BYTES_RELEASED, "memory_release_interval": "1s"},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                // Envoy's own wait between two tries grows to 30 s, at which a control plane that is back would be overlooked.
                "grpc_services": [{"envoy_grpc": {
                    "cluster_name": XDS,
                    "retry_policy": {"retry_back_off": {"base_interval": "0.5s", "max_interval": "5s"}},
                }}],
            },
            "cds_config": {"ads": {}, "resource_api_version": "V3"},
            "lds_config": {"ads": {}, "resource_api_version": "V3"},
        },
        "static_resources": {"clusters": [xds_cluster(arguments, secrets)]},
        // For the listener inside Envoy that tunnels end at.
        "bootstrap_extensions": [{
            "name": "envoy.bootstrap.internal_listener",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener",
                "buffer_size_kb": TUNNEL_BUFFER_KIB,
            },
        }],
        "layered_runtime": {"layers": [{"name": "portcullis", "static_layer": {
            // Answers to reviews are small; the owner of an upstream could send up to 32 MiB each.
            "http.async_response_buffer_limit": MAX_CALLOUT_ANSWER,
            "overload.premature_reset_total_stream_count": PREMATURE_RESETS.0,
            "overload.premature_reset_min_stream_lifetime_seconds": PREMATURE_RESETS.1,
            // A request that has waited for its pool goes on from there. Envoy's default, without which it would begin anew, and the
            // filter would take it for a loop.
            "envoy.reloadable_features.on_demand_cluster_no_recreate_stream": true,
        }}]},
        "overload_manager": overload::manager(arguments.max_downstream_connections, max_heap),
    })
}

const XDS: &str = "portcullis-xds";
/// Most KiB that Envoy keeps of a tunnel in either direction: as much as of any other connection.
const TUNNEL_BUFFER_KIB: u32 = 1024;
/// Most free memory that Envoy gives back to the system in a second.
const BYTES_RELEASED: u32 = 64 * 1024 * 1024;
/// Most bytes that Envoy keeps of an answer to a callout: the filter reads none of more than 256 KiB.
const MAX_CALLOUT_ANSWER: u32 = 512 * 1024;
/// A connection of which half of so many requests were reset by the client within so many seconds and before an answer is
/// closed (CVE-2023-44487). Envoy's own defaults.
const PREMATURE_RESETS: (u32, u32) = (500, 1);

fn xds_cluster(arguments: &Bootstrap, secrets: Option<&Paths>) -> Value {
    let pipe = |path: &PathBuf| json!({"endpoint": {"address": {"pipe": {"path": path.to_string_lossy()}}}});
    let replicas: Vec<Value> = arguments.xds_socket.iter().map(pipe).chain(arguments.network.endpoints()).collect();
    let mut cluster = json!({
        "name": XDS,
        "type": arguments.network.discovery_type(),
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {
                    "connection_keepalive": {"interval": "10s", "timeout": "5s"},
                }},
            },
        },
        "load_assignment": {
            "cluster_name": XDS,
            "endpoints": [{"lb_endpoints": replicas}],
        },
    });
    if let (Some(socket), Some(fields)) = (arguments.network.transport_socket(secrets), cluster.as_object_mut()) {
        fields.insert("transport_socket".to_owned(), socket);
    }
    cluster
}

fn socket_address(address: &std::net::SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{
    Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions as CommonOptions, KeepaliveSettings,
};
use envoy_types::pb::envoy::extensions::filters::http::credential_injector::v3::CredentialInjector;
use envoy_types::pb::envoy::extensions::filters::http::upstream_codec::v3::UpstreamCodec;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::envoy::extensions::http::injected_credentials::generic::v3::Generic;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions,
};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::util::pack_any;
use portcullis_api::{Cluster, HealthCheck};
use portcullis_filter_config::Pool;
use prost::Name;

use crate::names::{ResourceNames, parts};
use crate::proto::{duration, extension, sds, uint};

/// Streams on one connection to a server; further ones open another connection. kube-apiserver allows 100 by default, and
/// refuses one that comes before it noticed the end of another: these few stay free for that.
const MAX_STREAMS: u32 = 90;
/// The bytes that a server may send on one stream before the client took some.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The bytes that a server may send on one connection: more than twice the windows of all its streams together, so that slow
/// clients block no other. Envoy grants more only when half of the window was read.
const CONNECTION_WINDOW: u32 = 64 * 1024 * 1024;

/// The longest time between two pings on a connection to a server.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection lives for at most this part of the client certificate's validity.
const PART_OF_VALIDITY: u32 = 20;
const SHORTEST_LIFE: Duration = Duration::from_secs(2);
const LONGEST_LIFE: Duration = Duration::from_secs(3600);

/// The pool's protocol, and the gateway's token if the pool carries the gateway's credential.
pub(super) fn options(cluster: &Cluster, pool: Pool, names: &ResourceNames) -> (String, Any) {
    let protocol = match pool {
        Pool::Http2 | Pool::PassThrough => ProtocolConfig::Http2ProtocolOptions(http2(&cluster.health_check)),
        Pool::Upgrade | Pool::Anonymous => ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()),
    };
    let explicit = ExplicitHttpConfig { protocol_config: Some(protocol) };
    let options = HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)),
        common_http_protocol_options: life(cluster, pool)
            .map(|life| CommonOptions { max_connection_duration: Some(duration(life)), ..Default::default() }),
        http_filters: match pool {
            Pool::Http2 | Pool::Upgrade if cluster.token.is_some() => token_filters(names),
            _ => Vec::new(),
        },
        ..Default::default()
    };
    (HttpProtocolOptions::full_name(), pack_any(options))
}

/// A connection on which a ping stays without an answer is given up, so that reads that wait on it are asked elsewhere.
/// Pings are as frequent as health checks. They may take longer, because every watch on the connection ends with it: a
/// machine that is merely busy must not look dead.
fn keepalive(check: &HealthCheck) -> KeepaliveSettings {
    KeepaliveSettings {
        interval: Some(duration(check.interval.min(PING_INTERVAL))),
        timeout: Some(duration(PING_TIMEOUT)),
        ..Default::default()
    }
}

/// The time for which a connection takes new requests, where the client certificate authenticates the gateway. A kube-apiserver
/// looks at the certificate for each request, and a connection goes on presenting the one that it began with: a certificate
/// that is to be rotated must be gone from all connections before it expires. There is no clock here, so the bound is a part of
/// the whole validity, and a certificate has to be rotated that long before its end.
fn life(cluster: &Cluster, pool: Pool) -> Option<Duration> {
    let certificate = cluster.certificate.as_ref().filter(|_| matches!(pool, Pool::Http2 | Pool::Upgrade))?;
    Some((certificate.validity / PART_OF_VALIDITY).clamp(SHORTEST_LIFE, LONGEST_LIFE))
}

fn http2(check: &HealthCheck) -> Http2ProtocolOptions {
    Http2ProtocolOptions {
        max_concurrent_streams: Some(uint(MAX_STREAMS)),
        initial_stream_window_size: Some(uint(STREAM_WINDOW)),
        initial_connection_window_size: Some(uint(CONNECTION_WINDOW)),
        connection_keepalive: Some(keepalive(check)),
        ..Default::default()
    }
}

/// A request for which there is no token fails: sent without one it would be anonymous, or worse, carry the client's.
fn token_filters(names: &ResourceNames) -> Vec<HttpFilter> {
    let generic = Generic {
        credential: Some(sds(names.upstream(parts::TOKEN))),
        header_value_prefix: "Bearer ".to_owned(),
        ..Default::default()
    };
    let injector = CredentialInjector {
        overwrite: true,
        allow_request_without_credential: false,
        credential: Some(extension("envoy.http.injected_credentials.generic", generic)),
    };
    let filter = |name: &str, config: Any| HttpFilter {
        name: name.to_owned(),
        config_type: Some(ConfigType::TypedConfig(config)),
        ..Default::default()
    };
    vec![
        filter("envoy.filters.http.credential_injector", pack_any(injector)),
        filter("envoy.filters.http.upstream_codec", pack_any(UpstreamCodec {})),
    ]
}

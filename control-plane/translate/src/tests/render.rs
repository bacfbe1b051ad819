//! Resources as text that a person can compare: `Any`s opened, defaults left out, maps sorted.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::config::trace::v3::OpenTelemetryConfig;
use envoy_types::pb::envoy::extensions as ext;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use envoy_types::pb::google::protobuf::StringValue;
use prost::{Message, Name};
use std::fmt::Debug;
use std::sync::Arc;

use crate::resource::Resource;
use crate::route::RouteParts;

/// A resource as text.
pub(super) fn render(resource: &Arc<Resource>) -> String {
    format!(
        "# {} {}\n{}\n",
        resource.type_url.rsplit('.').next().unwrap(),
        resource.name,
        open(resource.type_url, &resource.message())
    )
}

fn open(type_url: &str, value: &[u8]) -> String {
    macro_rules! one_of {
        ($($message:ty),* $(,)?) => {$(
            if type_url == <$message>::type_url() {
                return text::<$message>(value);
            }
        )*};
    }
    if type_url == route::RouteConfiguration::type_url() {
        return compact(&format!("{:#?}", RouteParts::decode_for_test(value)));
    }
    one_of!(
        Cluster,
        ClusterLoadAssignment,
        Listener,
        OpenTelemetryConfig,
        route::Route,
        StringValue,
        core::TypedExtensionConfig,
        ext::access_loggers::file::v3::FileAccessLog,
        ext::access_loggers::filters::cel::v3::ExpressionFilter,
        ext::access_loggers::stream::v3::StderrAccessLog,
        ext::access_loggers::stream::v3::StdoutAccessLog,
        ext::filters::http::credential_injector::v3::CredentialInjector,
        ext::filters::http::dynamic_modules::v3::DynamicModuleFilter,
        ext::filters::http::dynamic_modules::v3::DynamicModuleFilterPerRoute,
        ext::filters::http::router::v3::Router,
        ext::filters::http::set_filter_state::v3::Config,
        ext::filters::http::upstream_codec::v3::UpstreamCodec,
        ext::filters::listener::original_dst::v3::OriginalDst,
        ext::filters::listener::tls_inspector::v3::TlsInspector,
        ext::filters::network::direct_response::v3::Config,
        ext::filters::network::http_connection_manager::v3::HttpConnectionManager,
        ext::filters::network::http_connection_manager::v3::http_connection_manager::ForwardClientCertConfig,
        ext::filters::network::set_filter_state::v3::Config,
        ext::filters::network::tcp_proxy::v3::TcpProxy,
        ext::http::early_header_mutation::header_mutation::v3::HeaderMutation,
        ext::http::injected_credentials::generic::v3::Generic,
        ext::load_balancing_policies::round_robin::v3::RoundRobin,
        ext::matching::common_inputs::network::v3::FilterStateInput,
        ext::retry::host::previous_hosts::v3::PreviousHostsPredicate,
        ext::tracers::opentelemetry::samplers::v3::ParentBasedSamplerConfig,
        ext::tracers::opentelemetry::samplers::v3::TraceIdRatioBasedSamplerConfig,
        ext::transport_sockets::internal_upstream::v3::InternalUpstreamTransport,
        ext::transport_sockets::raw_buffer::v3::RawBuffer,
        ext::transport_sockets::tls::cert_validator::dynamic_modules::v3::DynamicModuleCertValidatorConfig,
        ext::transport_sockets::tls::v3::DownstreamTlsContext,
        ext::transport_sockets::tls::v3::UpstreamTlsContext,
        ext::upstreams::http::v3::HttpProtocolOptions,
        matcher::HttpRequestHeaderMatchInput,
    );
    format!("<{type_url}>")
}

fn text<M: Message + Default + Debug>(value: &[u8]) -> String {
    compact(&format!("{:#?}", M::decode(value).unwrap()))
}

/// Opens every `Any` and drops fields that hold their default.
fn compact(debug: &str) -> String {
    let mut lines = debug.lines();
    let mut out: Vec<String> = Vec::new();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.ends_with("Any {") {
            let indent = &line[..line.len() - trimmed.len()];
            let (type_url, value) = read_any(&mut lines);
            let opened = open(&type_url, &value).replace('\n', &format!("\n{indent}"));
            out.push(format!("{indent}{}{opened}", trimmed.trim_end_matches("Any {")));
        } else if !is_default(trimmed) {
            out.push(line.to_owned());
        }
    }
    out.join("\n")
}

fn is_default(field: &str) -> bool {
    [": None,", ": [],", ": {},", ": \"\",", ": false,", ": 0,", ": 0.0,"].iter().any(|end| field.ends_with(end))
}

fn read_any<'a>(lines: &mut impl Iterator<Item = &'a str>) -> (String, Vec<u8>) {
    let (mut type_url, mut value) = (String::new(), Vec::new());
    for line in lines {
        let line = line.trim().trim_end_matches(',');
        if let Some(url) = line.strip_prefix("type_url: ") {
            type_url = url.trim_matches('"').to_owned();
        } else if let Ok(byte) = line.parse() {
            value.push(byte);
        } else if line == "}" {
            break;
        }
    }
    (type_url, value)
}

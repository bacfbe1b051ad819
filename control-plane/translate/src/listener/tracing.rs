//! Traces of a cluster's requests, by Envoy's own tracer.

use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::http_uri::HttpUpstreamType;
use envoy_types::pb::envoy::config::core::v3::{GrpcService, HttpService, HttpUri, TypedExtensionConfig};
use envoy_types::pb::envoy::config::trace::v3::OpenTelemetryConfig;
use envoy_types::pb::envoy::config::trace::v3::tracing::{Http, http::ConfigType};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::Tracing as Config;
use envoy_types::pb::envoy::extensions::tracers::opentelemetry::samplers::v3::{
    ParentBasedSamplerConfig, TraceIdRatioBasedSamplerConfig,
};
use envoy_types::pb::envoy::r#type::tracing::v3::{CustomTag, custom_tag::Type as TagType};
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use envoy_types::pb::envoy::r#type::v3::{FractionalPercent, Percent};
use envoy_types::util::pack_any;
use portcullis_api::{Cluster, Settings, Tracing, TracingParents, TracingProtocol, TracingUsers};
use portcullis_filter_config::SpanSettings;
use portcullis_filter_config::names::{TRACE_CONTEXT, span, wasm};

use crate::filter_build::FilterBuild;
use crate::names::{ResourceNames, parts};
use crate::proto::{boolean, extension, seconds, uint};

/// How long a batch of spans may take to the collector, seconds.
const TIMEOUT: u64 = 10;
/// The header by which Envoy lets a client demand a trace, and which it copies into the span.
const CLIENT_TRACE_ID: &str = "x-client-trace-id";

/// The tracing of a cluster's requests: that of the settings, unless the object's feature gate switches it off.
pub(super) fn of<'a>(cluster: &Cluster, settings: &'a Settings) -> Option<&'a Tracing> {
    settings.tracing.as_ref().filter(|_| cluster.gates.tracing != Some(false))
}

/// The tracer of a cluster's chain.
pub(super) fn tracer(tracing: &Tracing, settings: &Settings, filter: FilterBuild) -> Config {
    let cluster = ResourceNames::collector(&settings.instance, tracing).upstream(parts::COLLECTOR);
    let exporter = match tracing.protocol {
        TracingProtocol::Grpc => OpenTelemetryConfig { grpc_service: Some(grpc(cluster)), ..Default::default() },
        TracingProtocol::Http => {
            OpenTelemetryConfig { http_service: Some(http(tracing, cluster)), ..Default::default() }
        }
    };
    let trusts = tracing.parents == TracingParents::Trusted;
    let config = OpenTelemetryConfig {
        service_name: settings.instance.clone(),
        sampler: trusts.then(|| sampler(tracing)),
        ..exporter
    };
    // With a sampler this decides nothing but whether the filter describes the span.
    let random = if trusts { 10_000 } else { tracing.sampled_of_10_000 };
    Config {
        // A client cannot demand a trace.
        client_sampling: Some(Percent { value: 0.0 }),
        random_sampling: Some(Percent { value: f64::from(random) / 100.0 }),
        // The attribute with the URL holds no path: a query holds commands of exec, and may hold a token. The filter writes the
        // path without its query.
        max_path_tag_length: Some(uint(0)),
        provider: Some(Http {
            name: "envoy.tracers.opentelemetry".to_owned(),
            config_type: Some(ConfigType::TypedConfig(pack_any(config))),
        }),
        // Spans of a server are below the attempt that they belong to.
        spawn_upstream_span: Some(boolean(true)),
        custom_tags: custom_tags(filter),
        ..Default::default()
    }
}

/// The filter's part in spans.
pub(super) fn span_settings(tracing: &Tracing) -> SpanSettings {
    SpanSettings {
        users: tracing.users == TracingUsers::Sent,
        trusted_parents: tracing.parents == TracingParents::Trusted,
    }
}

/// The headers that are removed from requests before Envoy begins a span.
pub(super) fn removed_headers(tracing: Option<&Tracing>) -> Vec<&'static str> {
    let Some(tracing) = tracing else { return Vec::new() };
    let context = if tracing.parents == TracingParents::Ignored { &TRACE_CONTEXT[..] } else { &[] };
    context.iter().copied().chain([CLIENT_TRACE_ID]).collect()
}

/// The parent's decision, and without a parent the rate. Without a sampler Envoy goes by the parent, too, but from 1.39 on decides anew
/// when the route is chosen again, which it is for each request.
fn sampler(tracing: &Tracing) -> TypedExtensionConfig {
    let rate =
        FractionalPercent { numerator: tracing.sampled_of_10_000, denominator: DenominatorType::TenThousand.into() };
    let by_rate = TraceIdRatioBasedSamplerConfig { sampling_percentage: Some(rate) };
    let by_rate = extension("envoy.tracers.opentelemetry.samplers.trace_id_ratio_based", by_rate);
    let by_parent = ParentBasedSamplerConfig { wrapped_sampler: Some(by_rate) };
    extension("envoy.tracers.opentelemetry.samplers.parent_based", by_parent)
}

fn grpc(cluster_name: String) -> GrpcService {
    GrpcService {
        timeout: Some(seconds(TIMEOUT)),
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc { cluster_name, ..Default::default() })),
        ..Default::default()
    }
}

fn http(tracing: &Tracing, cluster: String) -> HttpService {
    let scheme = if tracing.tls.is_some() { "https" } else { "http" };
    HttpService {
        http_uri: Some(HttpUri {
            uri: format!("{scheme}://{}/v1/traces", tracing.endpoint),
            timeout: Some(seconds(TIMEOUT)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(cluster)),
        }),
        ..Default::default()
    }
}

/// Attributes that the filter leaves in filter state; a tag without a value is none. The module writes all but those of Envoy's own
/// into the span itself; a VM reaches no span.
fn custom_tags(filter: FilterBuild) -> Vec<CustomTag> {
    let (attributes, prefix) = match filter {
        FilterBuild::Module => (&span::OF_ENVOY[..], ""),
        FilterBuild::Wasm => (&span::ALL[..], wasm::FILTER_STATE_PREFIX),
    };
    let tag = |attribute: &span::Attribute| {
        let value = format!("%FILTER_STATE({prefix}{}:PLAIN)%", attribute.state);
        CustomTag { tag: attribute.name.to_owned(), r#type: Some(TagType::Value(value)) }
    };
    attributes.iter().map(tag).collect()
}

#[cfg(test)]
mod tests {
    use portcullis_api::{Endpoint, ServerHost};

    use super::*;

    fn tracing(parents: TracingParents) -> Tracing {
        Tracing {
            endpoint: Endpoint { host: ServerHost::Ip([127, 0, 0, 1].into()), port: 4317 },
            protocol: TracingProtocol::Grpc,
            tls: None,
            sampled_of_10_000: 7,
            parents,
            users: TracingUsers::Omitted,
        }
    }

    // Goldens leave out what is 0.
    #[test]
    fn client_demands_no_trace_and_no_query_is_in_a_url() {
        for parents in [TracingParents::Ignored, TracingParents::Trusted] {
            let config = tracer(&tracing(parents), &Settings::default(), FilterBuild::Module);
            assert_eq!(config.client_sampling, Some(Percent { value: 0.0 }));
            assert_eq!(config.max_path_tag_length.map(|length| length.value), Some(0));
            let removed = removed_headers(Some(&tracing(parents)));
            assert!(removed.contains(&CLIENT_TRACE_ID));
            assert_eq!(removed.contains(&"traceparent"), parents == TracingParents::Ignored);
        }
        assert!(removed_headers(None).is_empty());
    }

    #[test]
    fn wasm_has_a_custom_tag_for_each_attribute() {
        let config = tracer(&tracing(TracingParents::Ignored), &Settings::default(), FilterBuild::Wasm);
        let tags: Vec<_> = config.custom_tags.iter().map(|tag| tag.tag.as_str()).collect();
        assert_eq!(tags, span::ALL.map(|attribute| attribute.name));
    }
}

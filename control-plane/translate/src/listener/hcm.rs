use envoy_types::pb::envoy::config::common::mutation_rules::v3::HeaderMutation as Mutation;
use envoy_types::pb::envoy::config::common::mutation_rules::v3::header_mutation::{Action, RemoveOnMatch};
use envoy_types::pb::envoy::config::core::v3::http_protocol_options::HeadersWithUnderscoresAction;
use envoy_types::pb::envoy::config::core::v3::{
    AsyncDataSource, BackoffStrategy, DataSource, Http2ProtocolOptions, HttpProtocolOptions, KeepaliveSettings,
    TypedExtensionConfig, async_data_source, data_source,
};
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::http::dynamic_modules::v3::DynamicModuleFilter;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3 as header_mutation;
use envoy_types::pb::envoy::extensions::filters::http::on_demand::v3::{OnDemand, OnDemandCds};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::http::wasm::v3::Wasm;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    CodecType, ForwardClientCertDetails, PathWithEscapedSlashesAction, RouteSpecifier, ServerHeaderTransformation,
    UpgradeConfig,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_filter,
};
use envoy_types::pb::envoy::extensions::http::early_header_mutation::header_mutation::v3::HeaderMutation;
use envoy_types::pb::envoy::extensions::wasm::v3::plugin_config::Vm;
use envoy_types::pb::envoy::extensions::wasm::v3::{FailurePolicy, PluginConfig, ReloadConfig, VmConfig};
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::util::pack_any;
use portcullis_api::{SecondaryPools, Settings, Tracing};
use portcullis_filter_config::names;

use super::{access_log, local_reply, peer, tracing};
use crate::cluster::LONGEST_CHECK;
use crate::filter_build::FilterBuild;
use crate::generation::reserved_headers;
use crate::names::{ResourceNames, stat_name};
use crate::proto::{ads, boolean, extension, header, json_any, module, seconds, uint};
use crate::route::direct_response;
use crate::status_body;

pub(super) type Manager = HttpConnectionManager;

/// Most headers of a request: 64 impersonated parts and what a client and its proxies add.
const MAX_HEADERS: u32 = 128;
/// Most KiB of a request's headers.
const MAX_HEADERS_KIB: u32 = 60;
/// The bytes that a client may send on one stream before the upstream took some.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Bounds of what a client may send on one connection.
const CONNECTION_WINDOW: (u32, u32) = (1024 * 1024, 256 * 1024 * 1024);

/// The manager of a cluster that is served. `hops`: the trusted HTTP proxies in front of it.
pub(super) fn serving(
    stat_prefix: String,
    routes: String,
    settings: &Settings,
    traced: Option<&Tracing>,
    filter: FilterBuild,
    hops: u32,
) -> Manager {
    HttpConnectionManager {
        forward_client_cert_matcher: Some(peer::matcher()),
        // Envoy's own reading of the list is what logs and everything else here go by. An address that is missing or garbled is
        // the connection's.
        xff_num_trusted_hops: hops,
        route_specifier: Some(rds(routes)),
        http_filters: headers(settings, hops > 0)
            .into_iter()
            .chain([portcullis_filter(settings, traced, filter)])
            .chain(pools_on_demand(settings))
            .chain([router()])
            .collect(),
        early_header_mutation_extensions: vec![early_mutation(settings, traced, hops)],
        // For 4 % of what a request costs: Envoy's tracer notes there which requests it samples. The filter makes one for each request
        // that is logged or attributed.
        generate_request_id: Some(boolean(traced.is_some())),
        tracing: traced.map(|traced| tracing::tracer(traced, settings, filter)),
        access_log: access_log::of_requests(&settings.access_log, filter),
        ..common(stat_prefix, settings)
    }
}

/// Routes that come by themselves, so that a change of them ends no connection.
pub(super) fn rds(name: String) -> RouteSpecifier {
    RouteSpecifier::Rds(Rds { config_source: Some(ads()), route_config_name: name })
}

/// The connection manager for unknown names. It knows no cluster and loads no module.
pub(super) fn refusing(settings: &Settings) -> Manager {
    let body = status_body::fixed(status_body::UNKNOWN_NAME, "ServiceUnavailable", 503);
    answering(vec![host("default", vec!["*".to_owned()], direct_response(503, body))], settings)
}

/// Host names whose requests all have one answer.
pub(super) fn host(name: &str, domains: Vec<String>, route: Route) -> VirtualHost {
    VirtualHost { name: name.to_owned(), domains, routes: vec![route], ..Default::default() }
}

/// A connection manager that answers all requests itself, by host names without ports.
pub(super) fn answering(virtual_hosts: Vec<VirtualHost>, settings: &Settings) -> Manager {
    let names = ResourceNames::gateway(&settings.instance);
    let routes = RouteConfiguration {
        name: names.part("default"),
        ignore_port_in_host_matching: virtual_hosts.len() > 1,
        virtual_hosts,
        ..Default::default()
    };
    HttpConnectionManager {
        route_specifier: Some(RouteSpecifier::RouteConfig(routes)),
        http_filters: headers(settings, false).into_iter().chain([router()]).collect(),
        access_log: access_log::of_strangers(&settings.access_log),
        ..common(stat_name("default"), settings)
    }
}

pub(super) fn common(stat_prefix: String, settings: &Settings) -> Manager {
    HttpConnectionManager {
        codec_type: CodecType::Auto.into(),
        stat_prefix,
        use_remote_address: Some(boolean(true)),
        xff_num_trusted_hops: settings.trusted_hops,
        // Not set, no client is internal: an internal one would choose its own request id and could steer the router by x-envoy-
        // headers. Set but empty, every private address is.
        internal_address_config: None,
        // kube-apiserver sees the path exactly as the client wrote it, so that the filter judges what it judges.
        normalize_path: Some(boolean(false)),
        merge_slashes: false,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::KeepUnchanged.into(),
        forward_client_cert_details: ForwardClientCertDetails::Sanitize.into(),
        server_header_transformation: ServerHeaderTransformation::PassThrough.into(),
        stream_idle_timeout: Some(seconds(300)),
        stream_flush_timeout: Some(seconds(FLUSH_TIMEOUT)),
        request_headers_timeout: Some(seconds(10)),
        max_request_headers_kb: Some(uint(MAX_HEADERS_KIB)),
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: Some(seconds(IDLE_TIMEOUT)),
            max_headers_count: Some(uint(MAX_HEADERS)),
            headers_with_underscores_action: HeadersWithUnderscoresAction::Allow.into(),
            ..Default::default()
        }),
        http2_protocol_options: Some(http2(settings.limits.max_concurrent_streams)),
        // Also where no cluster is served: an upgrade gets the same answer as any other request.
        upgrade_configs: ["websocket", "spdy/3.1"].map(upgrade).to_vec(),
        local_reply_config: Some(local_reply::config(settings.hsts.as_deref())),
        generate_request_id: Some(boolean(false)),
        ..Default::default()
    }
}

fn http2(streams: u32) -> Http2ProtocolOptions {
    let (least, most) = CONNECTION_WINDOW;
    Http2ProtocolOptions {
        max_concurrent_streams: Some(uint(streams)),
        initial_stream_window_size: Some(uint(STREAM_WINDOW)),
        // Twice, because Envoy gives room back only when half of it was read.
        initial_connection_window_size: Some(uint(streams.saturating_mul(2 * STREAM_WINDOW).clamp(least, most))),
        // A watch whose client is gone without a word is found out.
        connection_keepalive: Some(KeepaliveSettings {
            interval: Some(seconds(30)),
            timeout: Some(seconds(15)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn portcullis_filter(settings: &Settings, traced: Option<&Tracing>, filter: FilterBuild) -> HttpFilter {
    let own = json_any(&FilterBuild::filter_config(settings, traced.map(tracing::span_settings)));
    if filter == FilterBuild::Wasm {
        return http_filter("envoy.filters.http.wasm", pack_any(wasm_filter(settings, own)));
    }
    let config = DynamicModuleFilter {
        dynamic_module_config: Some(module()),
        filter_name: names::HTTP_FILTER.to_owned(),
        filter_config: Some(own),
        ..Default::default()
    };
    http_filter(names::HTTP_FILTER, pack_any(config))
}

/// Seconds that a request waits for a pool which Envoy has to ask for. Before Envoy asks it may wait for a check of another pool's
/// server, and then for that of the pool's own.
const POOL_TIMEOUT: u64 = 7;
const _: () = assert!(POOL_TIMEOUT > 2 * LONGEST_CHECK, "a server that hangs would have requests to others refused");

/// The filter by which Envoy asks for the pool of a request's route. It runs behind the filter of ours: the route before that one's
/// decision leads to no pool.
fn pools_on_demand(settings: &Settings) -> Option<HttpFilter> {
    (settings.secondary_pools == SecondaryPools::OnDemand).then(|| {
        let timeout = Some(seconds(POOL_TIMEOUT));
        let odcds = Some(OnDemandCds { source: Some(ads()), timeout, ..Default::default() });
        http_filter("envoy.filters.http.on_demand", pack_any(OnDemand { odcds }))
    })
}

pub(super) fn router() -> HttpFilter {
    http_filter(
        "envoy.filters.http.router",
        pack_any(Router {
            suppress_envoy_headers: true,
            // The filter counts answers; Envoy's own counters by code take 4 % of what a request costs.
            dynamic_stats: Some(boolean(false)),
            ..Default::default()
        }),
    )
}

pub(super) fn http_filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(config)),
        ..Default::default()
    }
}

/// Seconds that a connection may be without a request: a bit longer than Go's clients keep one (90 s), and kube-apiserver. Envoy's own
/// hour would keep as long what a stranger's certificate takes.
const IDLE_TIMEOUT: u64 = 120;

/// Seconds that a client may take to read the rest of a response that is complete here. Without it Envoy goes by the route's idle
/// timeout, which is off for watches: their streams, with the configuration that they began under, would stay for as long as the
/// connection.
const FLUSH_TIMEOUT: u64 = 60;

/// The header by which proxies say where a request comes from. kube-apiserver's audit log lists its entries before the
/// connection's address (apimachinery, `net.SourceIPs`), as it does `forwarded` and `x-real-ip`, which the filter removes: a
/// removal here builds a map of all headers, unless the name is one that Envoy keeps a place for.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Headers that Envoy believes of a trusted proxy, and that no proxy in front has to write: TLS ends here.
const BELIEVED: [&str; 2] = ["x-forwarded-port", "x-forwarded-proto"];

/// The header with the id of a request: if Envoy writes none, a client's would be taken for one.
const REQUEST_ID: &str = "x-request-id";

/// The headers that say where a request comes from and are removed before Envoy writes its own. Behind trusted proxies Envoy has
/// to read `x-forwarded-for` before [`headers`] overwrites it.
fn forwarded(hops: u32) -> &'static [&'static str] {
    if hops == 0 { &[FORWARDED_FOR] } else { &BELIEVED }
}

/// The filter that writes headers of requests and of answers, if there are any. Behind trusted proxies it writes the one address
/// which Envoy believes over `x-forwarded-for`: the entries left of it are the client's own. It runs before the filter of ours,
/// whose attribution reads that header, so that answers of ours pass it as well.
fn headers(settings: &Settings, has_proxies: bool) -> Option<HttpFilter> {
    let address = has_proxies.then(|| header(FORWARDED_FOR, "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"));
    let hsts = settings.hsts.as_deref().map(|value| header(local_reply::HSTS, value));
    if address.is_none() && hsts.is_none() {
        return None;
    }
    let overwrite = |header| Mutation { action: Some(Action::Append(header)) };
    let mutations = header_mutation::Mutations {
        request_mutations: address.into_iter().map(overwrite).collect(),
        response_mutations: hsts.into_iter().map(overwrite).collect(),
        ..Default::default()
    };
    let config = header_mutation::HeaderMutation { mutations: Some(mutations), ..Default::default() };
    Some(http_filter("envoy.filters.http.header_mutation", pack_any(config)))
}

/// A second line behind the filter's own header scan: names that only the gateway writes are gone before the first route
/// match, and before Envoy writes its own.
fn early_mutation(settings: &Settings, traced: Option<&Tracing>, hops: u32) -> TypedExtensionConfig {
    let configured = reserved_headers(settings);
    let prefixes = names::EARLY_REMOVED_PREFIXES.into_iter().chain(configured.iter().map(String::as_str));
    let remove = |prefix: &str| {
        let matcher =
            StringMatcher { match_pattern: Some(MatchPattern::Prefix(prefix.to_owned())), ..Default::default() };
        Mutation { action: Some(Action::RemoveOnMatch(RemoveOnMatch { key_matcher: Some(matcher) })) }
    };
    // By name, for which Envoy builds a map of the headers: the tracer does so as well, and a match of each header takes more.
    let clients_id = traced.is_none().then_some(REQUEST_ID);
    let named = forwarded(hops).iter().copied().chain(clients_id).chain(tracing::removed_headers(traced));
    let named = named.map(|name| Mutation { action: Some(Action::Remove(name.to_owned())) });
    let config = HeaderMutation { mutations: prefixes.map(remove).chain(named).collect() };
    extension("envoy.http.early_header_mutation.header_mutation", config)
}

pub(super) fn upgrade(kind: &str) -> UpgradeConfig {
    UpgradeConfig { upgrade_type: kind.to_owned(), ..Default::default() }
}

/// The filter as portcullis.wasm. All chains name the same VM, so that a worker runs one for all clusters.
fn wasm_filter(settings: &Settings, configuration: Any) -> Wasm {
    let file = DataSource {
        specifier: Some(data_source::Specifier::Filename(settings.wasm_module_path.clone())),
        ..Default::default()
    };
    let vm = VmConfig {
        vm_id: names::HTTP_FILTER.to_owned(),
        runtime: "envoy.wasm.runtime.v8".to_owned(),
        code: Some(AsyncDataSource { specifier: Some(async_data_source::Specifier::Local(file)) }),
        ..Default::default()
    };
    let config = PluginConfig {
        name: names::HTTP_FILTER.to_owned(),
        configuration: Some(configuration),
        // Requests under way when a VM panics fail closed, and the next request after this time makes another VM.
        failure_policy: FailurePolicy::FailReload.into(),
        reload_config: Some(ReloadConfig {
            backoff: Some(BackoffStrategy { base_interval: Some(seconds(1)), ..Default::default() }),
        }),
        vm: Some(Vm::VmConfig(vm)),
        ..Default::default()
    };
    Wasm { config: Some(config) }
}

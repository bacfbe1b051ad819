//! Host names of accepted routes without a backend that can be used: each request gets 500, as the Gateway API asks for. All of a listener
//! have one chain, which knows no cluster and loads no module: whatever a request has, it reaches nothing.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch};
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::{HeaderMatcher, Route, RouteMatch, VirtualHost};
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use portcullis_api::Settings;
use portcullis_attach::HostPattern;

use super::handshake::HandshakeValidation;
use super::{access_log, chain, hcm, tls};
use crate::gateway_secrets::FrontendValidation;
use crate::names::ResourceNames;
use crate::proto::{seconds, uint};
use crate::resource::Resource;
use crate::route::{as_written, direct_response, other_name};
use crate::status_body;

/// An authority that is an address, which names no route: of `kubectl --tls-server-name`. No host name has digits and dots alone.
const ADDRESS: &str = r"([0-9.]+|\[[0-9a-fA-F:.]+\])(:[0-9]+)?";

/// These host names of a listener.
pub(super) struct UnresolvedHosts<'a> {
    hosts: BTreeSet<&'a HostPattern>,
    /// The client certificates that the Gateway asks for.
    validation: Option<HandshakeValidation>,
}

/// Everything that the chain has of its listener.
pub(super) struct UnresolvedPlace<'a> {
    /// The chain's name.
    pub(super) name: String,
    /// The secrets with the certificates that clients see.
    pub(super) certificates: Vec<String>,
    /// Host names below wildcards of these that are not among them.
    pub(super) others: Vec<String>,
    /// The Gateway.
    pub(super) gateway: &'a str,
    pub(super) settings: &'a Settings,
}

impl<'a> UnresolvedHosts<'a> {
    pub(super) fn new(
        hosts: BTreeSet<&'a HostPattern>,
        frontend: &FrontendValidation,
        gateway: &ResourceNames,
    ) -> Self {
        let validation = if hosts.is_empty() { None } else { HandshakeValidation::of_gateway(frontend, gateway) };
        Self { hosts, validation }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    pub(super) fn contains(&self, host: &HostPattern) -> bool {
        self.hosts.contains(host)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a HostPattern> {
        self.hosts.iter().copied()
    }

    /// The secret that has to be sent for its handshakes.
    pub(super) fn validation(&self) -> Option<&Resource> {
        self.validation.as_ref().and_then(HandshakeValidation::resource)
    }

    /// The chain of all of them; `None` if there are none.
    pub(super) fn chain(&self, place: UnresolvedPlace<'_>) -> Option<FilterChain> {
        if self.is_empty() {
            return None;
        }
        let UnresolvedPlace { name, certificates, others, gateway, settings } = place;
        let server_names: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        let socket = match self.validation.clone() {
            Some(validation) => tls::with_client_certificate(certificates, validation, &settings.tls),
            None => tls::plain(certificates, &settings.tls),
        };
        let hosts = vec![unresolved(&server_names), other_names(&others)];
        let manager = manager(hosts, gateway, settings);
        Some(FilterChain {
            name,
            filter_chain_match: Some(FilterChainMatch { server_names, ..Default::default() }),
            filters: vec![chain::http_connection_manager(manager)],
            transport_socket: Some(socket),
            transport_socket_connect_timeout: Some(seconds(chain::HANDSHAKE_TIMEOUT)),
            ..Default::default()
        })
    }
}

fn manager(hosts: Vec<VirtualHost>, gateway: &str, settings: &Settings) -> hcm::Manager {
    let answering = hcm::answering(hosts, settings);
    let options = answering.common_http_protocol_options.unwrap_or_default();
    let logs = [access_log::of_unresolved, access_log::of_misdirected];
    hcm::Manager {
        // A route that has a backend again is found at the next request, on another connection: this one would be answered by this
        // chain for Envoy's drain time.
        common_http_protocol_options: Some(HttpProtocolOptions {
            max_requests_per_connection: Some(uint(1)),
            ..options
        }),
        // The proxies of the settings are in front of other Envoys.
        xff_num_trusted_hops: 0,
        access_log: logs.into_iter().flat_map(|of| of(&settings.access_log, gateway)).collect(),
        ..answering
    }
}

fn unresolved(names: &[String]) -> VirtualHost {
    hcm::host("unresolved", as_written(names).collect(), failure())
}

/// Requests for other names are for another connection, as everywhere.
fn other_names(others: &[String]) -> VirtualHost {
    let domains = as_written(others).chain(["*".to_owned()]).collect();
    let by_address = Route { r#match: Some(any_address()), ..failure() };
    VirtualHost { routes: vec![by_address, other_name()], ..hcm::host("others", domains, Route::default()) }
}

fn failure() -> Route {
    direct_response(500, status_body::fixed(status_body::UNRESOLVED, "InternalError", 500))
}

fn any_address() -> RouteMatch {
    let regex = RegexMatcher { regex: ADDRESS.to_owned(), ..Default::default() };
    let matcher = StringMatcher { match_pattern: Some(MatchPattern::SafeRegex(regex)), ..Default::default() };
    let authority = HeaderMatcher {
        name: ":authority".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(matcher)),
        ..Default::default()
    };
    RouteMatch { headers: vec![authority], ..crate::route::any_path() }
}

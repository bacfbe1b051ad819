use std::net::SocketAddr;

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch, ListenerFilter, listener_filter};
use envoy_types::pb::envoy::extensions::filters::listener::proxy_protocol::v3::ProxyProtocol;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::util::pack_any;
use portcullis_api::{Cidr, Settings};
use prost::{Message, Name};

use crate::names::parts;
use crate::proto::uint;

/// A port at which clients come in, or several ports at which the same holds. They are addresses of one listener of Envoy: its
/// filter chains are in memory once, and a change of them takes effect at all of these at the same time.
pub(super) struct ListenerPort<'a> {
    /// The listener's name.
    pub(super) part: &'static str,
    pub(super) addresses: Vec<SocketAddr>,
    /// The proxies through which all come; `None` where all come directly.
    trusted: Option<&'a [Cidr]>,
}

/// Every port. The listener at `listener.port` has one name for all sources: under another name Envoy would refuse it because
/// the address is taken.
pub(super) fn ports(settings: &Settings) -> Vec<ListenerPort<'_>> {
    let main = |trusted| ListenerPort { part: parts::LISTENER, addresses: settings.addresses(), trusted };
    match &settings.proxy_protocol {
        None => vec![main(None)],
        Some(proxies) => match proxies.port {
            None => vec![main(Some(proxies.trusted.as_slice()))],
            Some(port) => {
                let (part, addresses) = (parts::PROXIED_LISTENER, everywhere(port, settings));
                vec![main(None), ListenerPort { part, addresses, trusted: Some(&proxies.trusted) }]
            }
        },
    }
}

/// A port at each IP address of the gateway.
pub(super) fn everywhere(port: u16, settings: &Settings) -> Vec<SocketAddr> {
    settings.ips().into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
}

impl ListenerPort<'_> {
    pub(super) fn listener_filters(&self) -> Vec<ListenerFilter> {
        match self.trusted {
            None => vec![tls_inspector()],
            Some(_) => vec![listener_filter("proxy_protocol", ProxyProtocol::default()), tls_inspector()],
        }
    }

    /// Whether only some may come in.
    pub(super) fn requires_proxy_protocol(&self) -> bool {
        self.trusted.is_some()
    }

    /// The encoded chain, restricted to the allowed sources by the address of the connection itself, whatever the PROXY header
    /// says. Envoy closes connections that match no chain before any handshake.
    pub(super) fn restrict_sources(&self, chain: Vec<u8>) -> Vec<u8> {
        let Some(trusted) = self.trusted else { return chain };
        let condition =
            FilterChainMatch { direct_source_prefix_ranges: trusted.iter().map(range).collect(), ..Default::default() };
        // A message that comes twice is one with the fields of both. In front: chains have their end in common.
        let mut restricted = FilterChain { filter_chain_match: Some(condition), ..Default::default() }.encode_to_vec();
        restricted.extend(chain);
        restricted
    }
}

pub(super) fn range(range: &Cidr) -> CidrRange {
    CidrRange { address_prefix: range.ip.to_string(), prefix_len: Some(uint(u32::from(range.length))) }
}

pub(super) fn tls_inspector() -> ListenerFilter {
    listener_filter("tls_inspector", TlsInspector::default())
}

pub(super) fn listener_filter<M: Name>(name: &str, config: M) -> ListenerFilter {
    ListenerFilter {
        name: format!("envoy.filters.listener.{name}"),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack_any(config))),
        ..Default::default()
    }
}

//! Encoded filter chains, of which most is the same for all clusters: a connection manager but for its routes and its name in
//! statistics. With ten thousand clusters these bytes, some KiB of each, are in memory once.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain};
use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};

use super::hcm::Manager;
use super::port::ListenerPort;
use crate::resource::Part;

/// Bytes that many chains have at their end.
#[derive(Default)]
pub(crate) struct CommonBytes(HashSet<Bytes>);

impl CommonBytes {
    /// The same bytes, of which there is one allocation.
    fn share(&mut self, bytes: &Bytes) -> Bytes {
        if let Some(known) = self.0.get(bytes) {
            return known.clone();
        }
        self.0.insert(bytes.clone());
        bytes.clone()
    }

    /// Drops those that no chain has any more.
    pub(crate) fn forget(&mut self) {
        self.0.retain(|bytes| !bytes.is_unique());
    }
}

/// Chains of one owner in a listener.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ListenerPart {
    chains: Vec<EncodedChain>,
    /// The chains in their place if Envoy refuses them, encoded: they close connections to the same names.
    fallback: Bytes,
}

/// A filter chain as a field of a listener, encoded: one piece behind the other.
#[derive(Clone, PartialEq, Eq)]
struct EncodedChain {
    own: Bytes,
    /// The bytes that others have as well; may be empty.
    common: Bytes,
}

impl ListenerPart {
    pub(super) fn new(chains: &[FilterChain], fallback: &[FilterChain]) -> Self {
        Self::at(None, chains, fallback)
    }

    /// That of a port's listener.
    pub(super) fn at_port(port: &ListenerPort<'_>, chains: &[FilterChain], fallback: &[FilterChain]) -> Self {
        Self::at(Some(port), chains, fallback)
    }

    fn at(port: Option<&ListenerPort<'_>>, chains: &[FilterChain], fallback: &[FilterChain]) -> Self {
        let at_port = |chain: Vec<u8>| match port {
            Some(port) => port.restrict_sources(chain),
            None => chain,
        };
        let one = |chain: &FilterChain| {
            let (encoded, common) = divided(chain);
            let mut own = EncodedChains::of([at_port(encoded)]);
            let common = own.split_off(own.len().saturating_sub(common));
            // Without the room for what is split off.
            own.shrink_to_fit();
            EncodedChain { own: own.into(), common: common.into() }
        };
        let fallback = EncodedChains::of(fallback.iter().map(|chain| at_port(chain.encode_to_vec())));
        Self { chains: chains.iter().map(one).collect(), fallback: fallback.into() }
    }

    /// Has what others have as well in the same allocation as they.
    pub(super) fn share(&mut self, common: &mut CommonBytes) {
        for chain in self.chains.iter_mut().filter(|chain| !chain.common.is_empty()) {
            chain.common = common.share(&chain.common);
        }
    }

    /// The same as a part of a resource.
    pub(super) fn owned_by(&self, owner: &Arc<str>) -> Part {
        let pieces = self.chains.iter().flat_map(|chain| [&chain.own, &chain.common]);
        let body = pieces.filter(|piece| !piece.is_empty()).cloned().collect();
        Part { owner: Arc::clone(owner), body, fallback: self.fallback.clone() }
    }
}

/// The chain encoded, and how many of the last bytes are of a connection manager without what is the cluster's alone. Encodings of
/// parts of a message, one behind the other, are the encoding of the whole.
fn divided(chain: &FilterChain) -> (Vec<u8>, usize) {
    let Some((last, others)) = chain.filters.split_last() else { return (chain.encode_to_vec(), 0) };
    let Some((filter, common)) = divided_manager(last) else { return (chain.encode_to_vec(), 0) };
    let mut encoded = FilterChain { filters: others.to_vec(), ..chain.clone() }.encode_to_vec();
    encoded.extend(FilterChain { filters: vec![filter], ..Default::default() }.encode_to_vec());
    (encoded, common)
}

/// The same filter with the cluster's own fields in front of the others, and the length of the others; `None` if it is no connection
/// manager.
fn divided_manager(filter: &Filter) -> Option<(Filter, usize)> {
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else { return None };
    if config.type_url != Manager::type_url() {
        return None;
    }
    let mut common = Manager::decode(config.value.as_slice()).ok()?;
    let own = Manager {
        stat_prefix: std::mem::take(&mut common.stat_prefix),
        route_specifier: common.route_specifier.take(),
        ..Default::default()
    };
    let (mut value, common) = (own.encode_to_vec(), common.encode_to_vec());
    value.extend_from_slice(&common);
    let config = Any { type_url: config.type_url.clone(), value };
    let config_type = Some(ConfigType::TypedConfig(config));
    Some((Filter { name: filter.name.clone(), config_type }, common.len()))
}

/// `envoy.config.listener.v3.Listener`, its filter chains only, each encoded already.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EncodedChains {
    #[prost(bytes = "vec", repeated, tag = "3")]
    filter_chains: Vec<Vec<u8>>,
}

impl EncodedChains {
    pub(super) fn of(chains: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
        Self { filter_chains: chains.into_iter().collect() }.encode_to_vec()
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::listener::v3::{FilterChainMatch, Listener};

    use super::super::{chain, hcm, peer};
    use super::*;

    fn of_cluster(name: &str, server: &str) -> FilterChain {
        let manager = Manager {
            stat_prefix: name.to_owned(),
            route_specifier: Some(hcm::rds(format!("{name}/routes"))),
            server_name: server.to_owned(),
            ..Default::default()
        };
        FilterChain {
            name: name.to_owned(),
            filter_chain_match: Some(FilterChainMatch { server_names: vec![name.to_owned()], ..Default::default() }),
            filters: vec![peer::recorder(), chain::http_connection_manager(manager)],
            ..Default::default()
        }
    }

    fn bytes(part: &ListenerPart) -> Vec<Bytes> {
        part.owned_by(&"o".into()).body
    }

    /// The chains as Envoy reads them, managers opened.
    fn read(encoded: &[u8]) -> Vec<(FilterChain, Vec<Manager>)> {
        let one = |chain: FilterChain| {
            let configs = chain.filters.iter().filter_map(|filter| match &filter.config_type {
                Some(ConfigType::TypedConfig(config)) if config.type_url == Manager::type_url() => Some(config),
                _ => None,
            });
            let managers = configs.map(|config| Manager::decode(config.value.as_slice()).unwrap()).collect();
            let names = |filter: &Filter| Filter { name: filter.name.clone(), config_type: None };
            let filters = chain.filters.iter().map(names).collect();
            (FilterChain { filters, ..chain }, managers)
        };
        Listener::decode(encoded).unwrap().filter_chains.into_iter().map(one).collect()
    }

    #[test]
    fn divided_chains_are_read_as_whole_ones() {
        let closed = chain::closed("closed".to_owned(), vec!["a".to_owned()]);
        let chains = [of_cluster("a", "x"), closed.clone(), FilterChain::default(), of_cluster("b", "x")];
        let part = ListenerPart::new(&chains, std::slice::from_ref(&closed));
        let whole = |chains: &[FilterChain]| EncodedChains::of(chains.iter().map(Message::encode_to_vec));
        assert_eq!(read(&bytes(&part).concat()), read(&whole(&chains)));
        assert_eq!(part.owned_by(&"o".into()).fallback, whole(&[closed]));
        assert_eq!(read(&whole(&chains)).iter().map(|(_, managers)| managers.len()).sum::<usize>(), 2);
    }

    #[test]
    fn common_bytes_are_there_once_and_as_long_as_a_chain_has_them() {
        let mut common = CommonBytes::default();
        let mut part = |name, server| {
            let mut part = ListenerPart::new(&[of_cluster(name, server)], &[]);
            part.share(&mut common);
            part
        };
        let (one, other, third) = (part("a", "x"), part("b", "x"), part("c", "y"));
        let end = |part: &ListenerPart| bytes(part)[1].as_ptr();
        assert_eq!(end(&one), end(&other));
        assert_ne!(end(&one), end(&third));
        drop((one, third));
        common.forget();
        assert_eq!(common.0.iter().map(|bytes| bytes.as_ptr()).collect::<Vec<_>>(), [end(&other)]);
        drop(other);
        common.forget();
        assert!(common.0.is_empty());
    }
}

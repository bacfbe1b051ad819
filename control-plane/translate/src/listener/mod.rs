//! The one listener: a filter chain per cluster, chosen by SNI.
//!
//! A change of a chain drains the connections of that chain, a change of any other field drains all. So nothing that
//! changes often stands here: policies come by RDS, certificates by SDS.

mod access_log;
mod chain;
mod hcm;
mod local_reply;
mod tls;

pub(crate) use tls::client_validation;

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener, ListenerFilter, listener_filter};
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::util::pack_any;
use portcullis_api::{Claims, Cluster, Settings};
use prost::Message;

use crate::flavour::Flavour;
use crate::names::{ResourceNames, parts, stat_name};
use crate::proto::{ip_socket, seconds, uint};
use crate::resource::Resource;

/// Most bytes that Envoy buffers of one connection before it stops reading.
const BUFFER_LIMIT: u32 = 1024 * 1024;

/// What a cluster adds to the listener.
#[derive(Clone)]
pub(crate) enum Chain {
    /// It is served.
    Serving {
        /// The host names.
        names: Vec<String>,
        /// The chain's name.
        name: String,
        /// The chain, encoded.
        chain: Vec<u8>,
    },
    /// It is refused. Its names must not fall to somebody's wildcard.
    Reserved {
        /// The host names.
        names: Vec<String>,
    },
}

impl Chain {
    /// The chain of a cluster that is served.
    pub(crate) fn serving(cluster: &Cluster, names: &ResourceNames, settings: &Settings, flavour: Flavour) -> Self {
        let chain = chain::serving(cluster, names, settings, flavour);
        let names = std::iter::once(&cluster.name).chain(&cluster.server_names).cloned().collect();
        Self::Serving { names, chain: chain.encode_to_vec(), name: chain.name }
    }

    /// The names of an object that is refused.
    pub(crate) fn reserved(claims: &Claims) -> Self {
        Self::Reserved { names: claims.names.iter().map(|(name, _)| name.clone()).collect() }
    }
}

/// The listener with all chains.
pub(crate) fn listener(settings: &Settings, chains: Vec<Chain>) -> Resource {
    let names = ResourceNames::gateway(&settings.instance);
    let name = names.part(parts::LISTENER);
    let reserved = reserved_names(&chains);
    let encoded = |chain: FilterChain| (chain.name.clone(), chain.encode_to_vec());
    let mut filter_chains: Vec<(String, Vec<u8>)> = chains
        .into_iter()
        .filter_map(|chain| match chain {
            Chain::Serving { name, chain, .. } => Some((name, chain)),
            Chain::Reserved { .. } => None,
        })
        .collect();
    if !reserved.is_empty() {
        filter_chains.push(encoded(chain::closed(names.part("reserved"), reserved)));
    }
    filter_chains.sort();
    if filter_chains.is_empty() && settings.default_certificate.is_none() {
        // Envoy refuses a listener without any chain. No name ends in .invalid (RFC 6761).
        filter_chains.push(encoded(chain::closed(names.part("reserved"), vec!["portcullis.invalid".to_owned()])));
    }
    let listener = Listener {
        stat_prefix: stat_name(&settings.instance),
        address: Some(ip_socket(settings.address, settings.port)),
        default_filter_chain: chain::default(settings),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        listener_filters: vec![tls_inspector()],
        listener_filters_timeout: Some(seconds(10)),
        name: name.clone(),
        ..Default::default()
    };
    let chains = EncodedChains { filter_chains: filter_chains.into_iter().map(|(_, chain)| chain).collect() };
    let mut resource = Resource::new(name, &listener);
    resource.value.extend(chains.encode_to_vec());
    resource
}

/// `envoy.config.listener.v3.Listener`, its filter chains only, each encoded already. Encodings of parts of a message, one
/// behind the other, are the encoding of the whole.
#[derive(Clone, PartialEq, Message)]
struct EncodedChains {
    #[prost(bytes = "vec", repeated, tag = "3")]
    filter_chains: Vec<Vec<u8>>,
}

/// Names of refused objects that a served wildcard would catch, and that nobody serves.
fn reserved_names(chains: &[Chain]) -> Vec<String> {
    let (mut served, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for chain in chains {
        match chain {
            Chain::Serving { names, .. } => served.extend(names),
            Chain::Reserved { names } => refused.extend(names),
        }
    }
    let parents: Vec<&str> = served.iter().filter_map(|name| name.strip_prefix('*')).collect();
    let caught = |name: &str| parents.iter().any(|parent| name.len() > parent.len() && name.ends_with(parent));
    refused.into_iter().filter(|name| !served.contains(name) && caught(name)).cloned().collect()
}

fn tls_inspector() -> ListenerFilter {
    ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack_any(TlsInspector::default()))),
        ..Default::default()
    }
}

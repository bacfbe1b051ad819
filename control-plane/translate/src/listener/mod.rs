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

use envoy_types::pb::envoy::config::listener::v3::{Listener, ListenerFilter, listener_filter};
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::util::pack_any;
use portcullis_api::{Claims, Cluster, Settings};
use prost::Message;

use crate::flavour::Flavour;
use crate::names::{ResourceNames, parts, stat_name};
use crate::proto::{ip_socket, seconds, uint};
use crate::resource::{Part, Resource};

/// Most bytes that Envoy buffers of one connection before it stops reading.
const BUFFER_LIMIT: u32 = 1024 * 1024;

/// What a cluster adds to the listener.
#[derive(Clone)]
pub(crate) enum Chain {
    /// It is served.
    Serving {
        /// Whose it is.
        owner: String,
        /// The host names.
        names: Vec<String>,
        /// The chain, as a listener that holds nothing else, encoded.
        chain: Vec<u8>,
        /// What may stand in its place, alike.
        instead: Vec<u8>,
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
        let names: Vec<_> = std::iter::once(&cluster.name).chain(&cluster.server_names).cloned().collect();
        let encoded = |chain| Listener { filter_chains: vec![chain], ..Default::default() }.encode_to_vec();
        let instead = encoded(chain::closed(chain.name.clone(), names.clone()));
        Self::Serving { owner: cluster.name.clone(), names, instead, chain: encoded(chain) }
    }

    /// The names of an object that is refused.
    pub(crate) fn reserved(claims: &Claims) -> Self {
        Self::Reserved { names: claims.names.iter().map(|(name, _)| name.clone()).collect() }
    }
}

/// The listener with all chains. Each cluster's chain is a part of its own, so that one that Envoy refuses can be left out.
pub(crate) fn listener(settings: &Settings, chains: Vec<Chain>) -> Resource {
    let names = ResourceNames::gateway(&settings.instance);
    let mut filter_chains = Vec::new();
    let mut reserved = reserved_names(&chains);
    if settings.default_certificate.is_none() {
        // Envoy refuses a listener without any chain. No name ends in .invalid (RFC 6761).
        reserved.push("portcullis.invalid".to_owned());
    }
    if !reserved.is_empty() {
        filter_chains.push(chain::closed(names.part("reserved"), reserved));
    }
    let listener = Listener {
        stat_prefix: stat_name(&settings.instance),
        address: Some(ip_socket(settings.address, settings.port)),
        filter_chains,
        default_filter_chain: chain::default(settings),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        listener_filters: vec![tls_inspector()],
        listener_filters_timeout: Some(seconds(10)),
        name: names.part(parts::LISTENER),
        ..Default::default()
    };
    let mut resource = Resource::new(listener.name.clone(), &listener);
    add_parts(&mut resource, chains);
    resource
}

/// Encodings of one message that stand one behind the other are read as one: each part adds its chain.
fn add_parts(resource: &mut Resource, chains: Vec<Chain>) {
    let mut serving: Vec<_> = chains
        .into_iter()
        .filter_map(|chain| match chain {
            Chain::Serving { owner, chain, instead, .. } => Some((owner, chain, instead)),
            Chain::Reserved { .. } => None,
        })
        .collect();
    serving.sort();
    for (owner, chain, instead) in serving {
        let start = resource.value.len();
        resource.value.extend(chain);
        resource.parts.push(Part { owner, start, end: resource.value.len(), instead });
    }
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

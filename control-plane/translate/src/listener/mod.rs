//! The listener, or two of them: a filter chain per cluster, chosen by SNI, and another one by its virtual IPs. Envoy looks
//! at the address first.
//!
//! A change of a chain drains the connections of that chain, a change of any other field drains all. So nothing that
//! changes often stands here: policies come by RDS, certificates by SDS.

mod access_log;
mod chain;
mod door;
mod hcm;
mod local_reply;
mod tls;

pub(crate) use tls::client_validation;

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use portcullis_api::{Claims, Cluster, Settings};
use prost::Message;

use door::Door;

use crate::flavour::Flavour;
use crate::names::{ResourceNames, stat_name};
use crate::proto::{ip_socket, seconds, uint};
use crate::resource::Resource;

/// Most bytes that Envoy buffers of one connection before it stops reading.
const BUFFER_LIMIT: u32 = 1024 * 1024;

/// What a cluster adds to the listener.
#[derive(Clone)]
pub(crate) enum Chain {
    /// It is served.
    Serving {
        /// The host names, and the virtual IPs.
        names: Vec<String>,
        /// Its chains' names, and the chains, encoded.
        chains: Vec<(String, Vec<u8>)>,
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
        let serving = chain::serving(cluster, names, settings, flavour);
        let served = std::iter::once(&cluster.name).chain(&cluster.server_names).cloned();
        let served = served.chain(cluster.virtual_ips.iter().map(ToString::to_string)).collect();
        let at_addresses = chain::at_virtual_ips(cluster, names, &serving);
        Self::Serving { names: served, chains: std::iter::once(serving).chain(at_addresses).map(encoded).collect() }
    }

    /// The names of an object that is refused.
    pub(crate) fn reserved(claims: &Claims) -> Self {
        Self::Reserved { names: claims.names.iter().map(|(name, _)| name.clone()).collect() }
    }
}

fn encoded(chain: FilterChain) -> (String, Vec<u8>) {
    (chain.name.clone(), chain.encode_to_vec())
}

/// The listeners with all chains.
pub(crate) fn listeners(settings: &Settings, chains: Vec<Chain>) -> Vec<Resource> {
    let names = ResourceNames::gateway(&settings.instance);
    let reserved = reserved_names(&chains);
    let mut filter_chains: Vec<(String, Vec<u8>)> = chains
        .into_iter()
        .flat_map(|chain| match chain {
            Chain::Serving { chains, .. } => chains,
            Chain::Reserved { .. } => Vec::new(),
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
    door::doors(settings).iter().map(|door| listener(settings, door, &filter_chains)).collect()
}

fn listener(settings: &Settings, door: &Door<'_>, chains: &[(String, Vec<u8>)]) -> Resource {
    let name = ResourceNames::listener().part(door.part);
    let default = chain::default(settings);
    let mut filter_chains: Vec<_> = chains.iter().map(|(_, chain)| door.guarded(chain.clone())).collect();
    // A chain for everybody would let everybody in.
    if let (true, Some(default)) = (door.is_guarded(), &default) {
        filter_chains.push(door.guarded(default.encode_to_vec()));
    }
    let suffix = if door.is_guarded() { "-proxied" } else { "" };
    let listener = Listener {
        stat_prefix: stat_name(&settings.instance) + suffix,
        address: Some(ip_socket(settings.address, door.port)),
        default_filter_chain: default.filter(|_| !door.is_guarded()),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        listener_filters: door.listener_filters(),
        listener_filters_timeout: Some(seconds(10)),
        name: name.clone(),
        ..Default::default()
    };
    let mut resource = Resource::new(name, &listener);
    resource.value.extend(EncodedChains { filter_chains }.encode_to_vec());
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

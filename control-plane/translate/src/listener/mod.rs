//! The listener, or two of them: a filter chain per cluster, chosen by SNI, and another one by its virtual IPs. Envoy looks at
//! the address first. And those of [`tunnel`].
//!
//! A change of a chain drains the connections of that chain, a change of any other field drains all. Fields that change often
//! are therefore not here: policies come by RDS, certificates by SDS.

mod access_log;
mod chain;
mod gateway;
mod gateway_budget;
mod hcm;
mod https;
mod local_reply;
mod passthrough;
mod peer;
mod port;
mod redirect;
mod serving;
mod tls;
mod tracing;
mod tunnel;

pub(crate) use gateway::{GatewayBackends, gateway_listeners};
pub use https::only_cluster;

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use portcullis_api::{Claims, Cluster, Settings};
use prost::Message;

use port::ListenerPort;
use tunnel::{TunnelEnd, TunnelEnds};

use crate::filter_build::FilterBuild;
use crate::names::{ResourceNames, stat_name};
use crate::proto::{ip_socket, seconds, uint};
use crate::resource::{Part, Resource};

/// Most bytes that Envoy buffers of one connection before it stops reading.
const BUFFER_LIMIT: u32 = 1024 * 1024;

/// Seconds in which a connection has to show which chain it is for.
const LISTENER_FILTERS_TIMEOUT: u64 = 10;
/// A name that no client has: none ends in .invalid (RFC 6761).
const NO_NAME: &str = "portcullis.invalid";

/// The contribution of a cluster to the listener.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Chain {
    /// It is served.
    Serving {
        /// The cluster's name.
        owner: String,
        /// The host names, and the virtual IPs.
        names: Vec<String>,
        /// Its chains, encoded.
        chains: Vec<Vec<u8>>,
        /// The chains in their place if Envoy refuses them: they close connections to the same names.
        fallback: Vec<Vec<u8>>,
        /// The way to it through tunnels, if there are any.
        tunnel: Option<TunnelEnd>,
    },
    /// It is refused. Its names must not fall to another object's wildcard.
    Reserved {
        /// The host names that it owns.
        names: Vec<String>,
    },
}

impl Chain {
    /// The chain of a cluster that is served.
    pub(crate) fn serving(cluster: &Cluster, names: &ResourceNames, settings: &Settings, filter: FilterBuild) -> Self {
        let serving = serving::chain(cluster, names, settings, filter, settings.trusted_hops);
        let closed = chain::closed(serving.name.clone(), chain::host_names(cluster));
        let served = chain::host_names(cluster).into_iter();
        let encoded = |chain: FilterChain| {
            let at_addresses = chain::at_virtual_ips(cluster, names, &chain);
            std::iter::once(chain).chain(at_addresses).map(|chain| chain.encode_to_vec()).collect::<Vec<_>>()
        };
        let others = chain::other_addresses(cluster, names, settings).map(encoded).unwrap_or_default();
        Self::Serving {
            owner: cluster.name.clone(),
            names: served.chain(cluster.virtual_ips.iter().map(ToString::to_string)).collect(),
            chains: encoded(serving).into_iter().chain(others).collect(),
            fallback: encoded(closed),
            tunnel: settings.tunnel.is_some().then(|| TunnelEnd::of(cluster, names, settings, filter)),
        }
    }

    /// The names of an object that is refused, but for those that another one owns.
    pub(crate) fn reserved(claims: &Claims, lost: &[String]) -> Self {
        let own = claims.names.iter().map(|(name, _)| name).filter(|name| !lost.contains(name));
        Self::Reserved { names: own.cloned().collect() }
    }
}

/// The listeners with all chains, and the routes of tunnels. Each cluster's chains are a part of their own, so that one that Envoy
/// refuses can be left out.
pub(crate) fn listeners(settings: &Settings, chains: Vec<Chain>) -> Vec<Resource> {
    let mut reserved = reserved_names(&chains);
    if settings.default_certificate.is_none() {
        // Envoy refuses a listener without any chain.
        reserved.push(NO_NAME.to_owned());
    }
    let (mut serving, mut ends) = (Serving::new(), TunnelEnds::new());
    for chain in chains {
        if let Chain::Serving { owner, chains, fallback, tunnel, .. } = chain {
            ends.extend(tunnel.map(|tunnel| (owner.clone(), tunnel)));
            serving.insert(owner, (chains, fallback));
        }
    }
    let ports = port::ports(settings);
    let listeners = ports.iter().map(|port| listener(settings, port, &reserved, &serving));
    listeners.chain(tunnel::resources(settings, &ends)).collect()
}

/// By owner: encoded chains, and the chains in their place.
type Serving = BTreeMap<String, (Vec<Vec<u8>>, Vec<Vec<u8>>)>;

fn listener(settings: &Settings, port: &ListenerPort<'_>, reserved: &[String], serving: &Serving) -> Resource {
    let names = ResourceNames::gateway(&settings.instance);
    let name = ResourceNames::listener().part(port.part);
    let default = chain::default(settings);
    let mut own = Vec::new();
    if !reserved.is_empty() {
        own.push(chain::closed(names.part("reserved"), reserved.to_vec()).encode_to_vec());
    }
    // A chain for all addresses would admit all of them.
    if let (true, Some(default)) = (port.requires_proxy_protocol(), &default) {
        own.push(default.encode_to_vec());
    }
    let suffix = if port.requires_proxy_protocol() { "-proxied" } else { "" };
    let listener = Listener {
        stat_prefix: stat_name(&settings.instance) + suffix,
        address: Some(ip_socket(settings.address, port.port)),
        default_filter_chain: default.filter(|_| !port.requires_proxy_protocol()),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        listener_filters: port.listener_filters(),
        listener_filters_timeout: Some(seconds(LISTENER_FILTERS_TIMEOUT)),
        name: name.clone(),
        ..Default::default()
    };
    let mut resource = Resource::new(name, &listener);
    let restrict_sources =
        |chains: &[Vec<u8>]| EncodedChains::of(chains.iter().map(|chain| port.restrict_sources(chain.clone())));
    resource.value.extend(restrict_sources(&own));
    for (owner, (chains, fallback)) in serving {
        let start = resource.value.len();
        resource.value.extend(restrict_sources(chains));
        let (owner, fallback) = (owner.clone(), restrict_sources(fallback));
        resource.parts.push(Part { owner, start, end: resource.value.len(), fallback });
    }
    resource
}

/// `envoy.config.listener.v3.Listener`, its filter chains only, each encoded already. Encodings of parts of a message, one
/// behind the other, are the encoding of the whole.
#[derive(Clone, PartialEq, Message)]
struct EncodedChains {
    #[prost(bytes = "vec", repeated, tag = "3")]
    filter_chains: Vec<Vec<u8>>,
}

impl EncodedChains {
    fn of(chains: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        Self { filter_chains: chains.collect() }.encode_to_vec()
    }
}

/// Names of refused objects that a served wildcard would catch, and that no object serves.
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

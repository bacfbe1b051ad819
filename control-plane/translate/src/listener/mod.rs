//! The listener, or two of them: a filter chain per cluster, chosen by SNI, and another one by its virtual IPs. Envoy looks at
//! the address first. And those of [`tunnel`].
//!
//! A change of a chain drains the connections of that chain, a change of any other field drains all. Fields that change often
//! are therefore not here: policies come by RDS, certificates by SDS.

mod access_log;
mod chain;
mod closed_route;
mod config_room;
mod encoded_chain;
mod gateway;
mod gateway_budget;
mod handshake;
mod hcm;
mod https;
mod local_reply;
mod narrower_names;
mod other_hosts;
mod passthrough;
mod peer;
mod port;
mod redirect;
mod requested;
mod serving;
mod tls;
mod tracing;
mod tunnel;
mod unresolved;

pub(crate) use config_room::{ConfigKey, ConfigRoom, RoomOfAll, UNRESOLVED};
pub(crate) use encoded_chain::CommonBytes;
pub use gateway::gateway_listener_port;
pub(crate) use gateway::{GatewayBackends, gateway_listeners};
#[cfg(test)]
pub(crate) use other_hosts::WIDER_STEPS;
pub(crate) use other_hosts::host_bytes;
pub(crate) use requested::is_unresolved;
pub use requested::only_cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use portcullis_api::{Claims, Cluster, Settings};
use prost::Message;

use encoded_chain::{EncodedChains, ListenerPart};
use port::ListenerPort;
use tunnel::{TunnelEnd, TunnelEnds};

use crate::filter_build::FilterBuild;
use crate::names::{ResourceNames, stat_name};
use crate::proto::{ip_sockets, seconds, uint};
use crate::resource::Resource;

/// Most bytes that Envoy buffers of one connection before it stops reading.
const BUFFER_LIMIT: u32 = 1024 * 1024;

/// Seconds in which a connection has to show which chain it is for.
const LISTENER_FILTERS_TIMEOUT: u64 = 10;
/// A name that no client has: none ends in .invalid (RFC 6761).
const NO_NAME: &str = "portcullis.invalid";

/// The contribution of a cluster to the listener.
#[derive(PartialEq, Eq)]
pub(crate) enum Chain {
    /// It is served.
    Serving {
        /// The cluster's name.
        owner: Arc<str>,
        /// The host names, and the virtual IPs.
        names: Vec<String>,
        /// Its part of the listener of each port, in the order of [`port::ports`].
        parts: Vec<ListenerPart>,
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
        let everywhere = |chain: FilterChain| {
            let at_addresses = chain::at_virtual_ips(cluster, names, &chain);
            std::iter::once(chain).chain(at_addresses).collect::<Vec<_>>()
        };
        let mut chains = everywhere(serving);
        chains.extend(chain::other_addresses(cluster, names, settings).into_iter().flat_map(everywhere));
        let closed = everywhere(closed);
        Self::Serving {
            owner: cluster.name.as_str().into(),
            names: served.chain(cluster.virtual_ips.iter().map(ToString::to_string)).collect(),
            parts: port::ports(settings).iter().map(|port| ListenerPart::at_port(port, &chains, &closed)).collect(),
            tunnel: settings.tunnel.is_some().then(|| TunnelEnd::of(cluster, names, settings, filter)),
        }
    }

    /// Has bytes that other clusters' chains have as well in the same allocation as they.
    pub(crate) fn share(&mut self, common: &mut CommonBytes) {
        if let Self::Serving { parts, tunnel, .. } = self {
            let tunnels = tunnel.iter_mut().map(|tunnel| &mut tunnel.part);
            parts.iter_mut().chain(tunnels).for_each(|part| part.share(common));
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
pub(crate) fn listeners(settings: &Settings, chains: &[Arc<Chain>]) -> Vec<Resource> {
    let mut reserved = reserved_names(chains);
    if settings.default_certificate.is_none() {
        // Envoy refuses a listener without any chain.
        reserved.push(NO_NAME.to_owned());
    }
    let (mut serving, mut ends) = (Serving::new(), TunnelEnds::new());
    for chain in chains {
        if let Chain::Serving { owner, parts, tunnel, .. } = chain.as_ref() {
            ends.extend(tunnel.as_ref().map(|tunnel| (owner, tunnel)));
            serving.insert(owner, parts.as_slice());
        }
    }
    let ports = port::ports(settings);
    let listeners = ports.iter().enumerate().map(|(index, port)| {
        let parts = serving.iter().filter_map(|(owner, parts)| Some(parts.get(index)?.owned_by(owner)));
        Resource { parts: parts.collect(), ..listener(settings, port, &reserved) }
    });
    listeners.chain(tunnel::resources(settings, &ends)).collect()
}

/// The parts of each owner, a listener's each.
type Serving<'a> = BTreeMap<&'a Arc<str>, &'a [ListenerPart]>;

/// The listener of a port, without the chains of clusters.
fn listener(settings: &Settings, port: &ListenerPort<'_>, reserved: &[String]) -> Resource {
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
    let (address, additional_addresses) = ip_sockets(&port.addresses);
    let listener = Listener {
        stat_prefix: stat_name(&settings.instance) + suffix,
        address,
        additional_addresses,
        default_filter_chain: default.filter(|_| !port.requires_proxy_protocol()),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        listener_filters: port.listener_filters(),
        listener_filters_timeout: Some(seconds(LISTENER_FILTERS_TIMEOUT)),
        name: name.clone(),
        ..Default::default()
    };
    let mut resource = Resource::new(name, &listener);
    resource.value.extend(EncodedChains::of(own.into_iter().map(|chain| port.restrict_sources(chain))));
    resource
}

/// Names of refused objects that a served wildcard would catch, and that no object serves.
fn reserved_names(chains: &[Arc<Chain>]) -> Vec<String> {
    let (mut served, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for chain in chains {
        match chain.as_ref() {
            Chain::Serving { names, .. } => served.extend(names),
            Chain::Reserved { names } => refused.extend(names),
        }
    }
    let parents: Vec<&str> = served.iter().filter_map(|name| name.strip_prefix('*')).collect();
    let caught = |name: &str| parents.iter().any(|parent| name.len() > parent.len() && name.ends_with(parent));
    refused.into_iter().filter(|name| !served.contains(name) && caught(name)).cloned().collect()
}

use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use portcullis_api::{Cluster, Settings, Transport};

use super::{chain, passthrough};
use crate::filter_build::FilterBuild;
use crate::names::ResourceNames;

/// The chain of a cluster that is served. `hops`: the trusted HTTP proxies in front of it.
pub(super) fn chain(
    cluster: &Cluster,
    names: &ResourceNames,
    settings: &Settings,
    filter: FilterBuild,
    hops: u32,
) -> FilterChain {
    match cluster.transport {
        Transport::Terminate => chain::judging(cluster, names, settings, filter, hops),
        Transport::Passthrough => passthrough::chain(cluster, names, settings),
    }
}

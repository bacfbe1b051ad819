use std::sync::Arc;

use super::compiled::CompiledEdition;
use super::door_hosts::DoorHosts;
use crate::cluster::Cluster;
use crate::long_streams::{Edition, RouteLoad, StreamRegistry};

/// A cluster's configuration as a route carries it, with the cluster's long-running streams.
#[derive(Debug)]
pub struct RouteConfig<T> {
    /// The cluster's name.
    pub name: String,
    /// The compiled configuration, under this route's host names.
    pub cluster: Cluster,
    /// Outlives the configuration: streams of an earlier one hear of what was edited.
    pub streams: Arc<StreamRegistry<T>>,
    /// Alive for as long as the proxy keeps the configuration, under whichever host names.
    pub edition: Arc<Edition>,
    /// That of its streams.
    pub(super) load: RouteLoad,
    /// The listener that it is of; empty if it names none.
    pub(super) listener: Arc<str>,
    /// For loads that come later.
    pub(super) compiled: Arc<CompiledEdition>,
    /// For the judge of running streams.
    pub(super) hosts: Option<Arc<DoorHosts>>,
}

//! The parts of claims to host names.

use crate::cluster_names::ClusterNames;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::past::PastHolders;
use crate::route::JudgedRoute;

/// A host name at a listener: the indices of Gateway and listener, and the name.
pub(crate) type Site = (usize, usize, HostPattern);

/// The holder of a host name at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder<'a> {
    /// A route, by its index.
    Route(usize),
    /// A route of another namespace than that of the claim, by its index: a wildcard of it covers the name.
    Wider(usize),
    /// An `UpstreamCluster`.
    Cluster(&'a str),
    /// A listener of the same port with narrower host names, by its index.
    Listener(usize),
}

/// Everything that decides about claims.
#[derive(Clone, Copy)]
pub(crate) struct ClaimRights<'a, 'b> {
    pub(crate) routes: &'a [JudgedRoute<'b>],
    pub(crate) gateways: &'a [JudgedGateway<'b>],
    pub(crate) clusters: &'a ClusterNames<'a>,
    pub(crate) past: PastHolders<'a>,
}

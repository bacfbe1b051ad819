use std::fmt;
use std::sync::Arc;

use super::config_room::{
    MAX_BYTES_IN_ALL, MAX_BYTES_OF_NAMESPACE, MAX_CONFIG_BYTES, MAX_TIGHTENED_BYTES, MAX_TIGHTENED_BYTES_OF_NAMESPACE,
};
use super::gateway_budget::{MAX_BITS, MAX_BITS_OF_NAMESPACE};

/// Why the connections of an accepted route are closed at a listener, where neither the route nor its cluster is the reason by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClosedBecause {
    /// The client addresses of clusters take more of Envoy's memory than there is for routes.
    ClientAddresses,
    /// The filter's configurations do.
    Configurations,
    /// The cluster and the Gateway both verify handshakes, by different CAs.
    ClientAuthorities,
    /// Policies hold for the route by which what is behind it cannot be judged: these, as far as they are known.
    Policies(Arc<str>),
    /// The Gateway's namespace or the route's has policies that are not known.
    UnreadPolicies,
}

impl ClosedBecause {
    /// The reason of a condition.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::ClientAddresses => "TooManyClientAddresses",
            Self::Configurations => "TooManyConfigurations",
            Self::ClientAuthorities => "DifferentClientAuthorities",
            Self::Policies(_) => "UnsupportedPolicies",
            Self::UnreadPolicies => "TooManyPolicies",
        }
    }
}

impl fmt::Display for ClosedBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientAddresses => write!(
                f,
                "the bits of clientAddresses, for each host name of a route and each address of the Gateway, are more than \
                 {MAX_BITS_OF_NAMESPACE} of this namespace, or {MAX_BITS} of the Gateway"
            ),
            Self::Configurations => write!(
                f,
                "the configurations of UpstreamClusters, one for each listener, with the host names below wildcards, are more than {} \
                 MiB at the Gateway, or those for routes with policies of their own more than {} MiB of this namespace or {} MiB of all, \
                 or those at all Gateways more than {} MiB of this namespace or {} MiB of all, and this namespace has more than its \
                 share",
                MAX_CONFIG_BYTES >> 20,
                MAX_TIGHTENED_BYTES_OF_NAMESPACE >> 20,
                MAX_TIGHTENED_BYTES >> 20,
                MAX_BYTES_OF_NAMESPACE >> 20,
                MAX_BYTES_IN_ALL >> 20
            ),
            Self::Policies(which) => {
                f.write_str(
                    "policies at the Gateway, the listener or the route hold, and what is behind the route cannot be judged by them",
                )?;
                if which.is_empty() { Ok(()) } else { write!(f, ": {which}") }
            }
            Self::UnreadPolicies => f.write_str(
                "the namespace of the route or of its Gateway has more DispatchPolicies or FlowControlPolicies than are looked at, and \
                 one that is not may be attached there",
            ),
            Self::ClientAuthorities => f.write_str(
                "the UpstreamCluster verifies handshakes (clientCertificateVerification: Handshake), and so does tls.frontend of the \
                 Gateway; the client CAs of one have to contain those of the other",
            ),
        }
    }
}

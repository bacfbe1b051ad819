use portcullis_filter_config::MAX_USER_AGENT;

use crate::local_token::IssuersError;
use crate::x509::ClientCaError;

/// Why a configuration is refused. The control plane's fault; Envoy keeps the configuration that it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Written for another version of the filter.
    #[error("configuration version {0} is not supported by this filter, or holds what is newer")]
    Version(u32),
    /// The client CA bundle.
    #[error(transparent)]
    ClientCa(#[from] ClientCaError),
    /// A header name for users, or a prefix of names that are reserved.
    #[error(
        "the header name {0:?} is not a lower-case word, or starts the name of a header that goes on with every request"
    )]
    HeaderName(String),
    /// In this mode users are not forwarded, so that a client with a certificate would be anonymous to the upstream.
    #[error("{0} means nothing where what clients present goes upstream unchanged")]
    ClientCredential(&'static str),
    /// A policy that denies by the user, where not every user is known: a stranger would pass.
    #[error("policy {0} denies by the user, whom this gateway does not know of every request")]
    Denial(usize),
    /// An address of an access list.
    #[error("access: {0:?} is no range of addresses")]
    Access(String),
    /// A start of user agents that is longer than what is kept of a running request's own.
    #[error("access: the start of a user agent has more than {MAX_USER_AGENT} bytes")]
    UserAgent,
    /// The draining of connections.
    #[error("rebalance is out of bounds")]
    Rebalance,
    /// A fair queue.
    #[error("the fair queue {0:?} is out of bounds")]
    FairQueue(String),
    /// The issuers of tokens.
    #[error("tokenIssuers: {0}")]
    TokenIssuers(#[from] IssuersError),
    /// Without an instance id the gateway would not recognise its own requests.
    #[error("the instance id is not a word")]
    Instance,
    /// Reports of the activity.
    #[error("activity needs 1 to 8 clusters, a node of 1 to 256 bytes and an interval of 5 to 15 seconds")]
    Activity,
    /// Exchanges about limits of all gateways.
    #[error("globalLimits needs 1 to 8 clusters and a node of 1 to 256 bytes")]
    GlobalLimits,
}

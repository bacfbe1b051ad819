//! The configuration of the filter bundle, and the few names on which the filters and the control plane must agree.
//!
//! This crate holds shapes only. The control plane serialises them as JSON into Envoy resources, the filters read them
//! once and compile them (`portcullis-core`); nothing here is on the path of a request.
//!
//! - [`FilterConfig`]: the listener's part. Nothing in it changes often, because a change drains connections.
//! - [`ClusterConfig`]: the part of one `UpstreamCluster`, carried by its virtual host, so that an edit of a policy drains
//!   nothing.
//! - [`destination`]: how a decision names the route that it opens.
//! - [`activity`]: what a process counts, for the control plane.
//! - [`limits`]: parts of limits that several gateways share.
//! - [`names`]: filter state keys, metadata keys and extension names.

mod access;
pub mod activity;
mod cluster;
mod destination;
mod dispatch;
mod fair_queue;
mod filter;
mod hex;
pub mod limits;
pub mod names;
mod policy;
mod rebalance;
#[cfg(test)]
mod reference;
mod request_export;
mod shadow;
mod token_issuer;
mod validator;
mod version;

pub use access::{AccessEntry, AccessLists, AccessScope, MAX_USER_AGENT};
pub use cluster::{
    ClusterConfig, CountedRequests, FlowControlLimit, FlowControlSchema, GlobalLimit, GlobalStrategy,
    ProtectedIdentities, RequestHeaders, Reviews, Servers, Shadow, UpstreamIdentity,
};
pub use destination::{
    GENERATION_MARK, Pool, RequestClass, TCP_POOL, counted_name, destination, destinations, object_name,
    without_generation,
};
pub use dispatch::Dispatch;
pub use fair_queue::{FairQueueConfig, FlowDistinguisher, FlowWeight};
pub use filter::{ActivityReports, FilterConfig, LimitExchanges, PeerSource, SpanSettings};
pub use hex::hex;
pub use policy::{Denial, Policy, Rule, RuleEntries, RuleList, ServiceAccount};
pub use rebalance::{Rebalance, RebalanceConditions};
pub use request_export::{RequestInfoExport, RequestInfoField};
pub use token_issuer::{PrefixedClaim, TokenIssuer, TokenKey, TokenPublicKey, TokenUsers};
pub use validator::ValidatorConfig;
pub use version::{
    CONFIG_VERSION, NODE_CONFIG_VERSION, NODE_FILTER, NODE_FILTER_MODULE, NODE_FILTER_WASM, NODE_GATEWAY,
    NODE_GATEWAY_ADDRESSES, NODE_INSTANCE,
};

/// Extra attributes of a user that the gateway needs a grant for in any cluster: those that current kube-apiservers attach to
/// tokens and certificates. Without a grant (`portcullis rbac`) the upstream refuses the whole request of a user who carries
/// one; others are sent, too, and need a grant each (`spec.portcullis.forwardedExtras`).
pub const DEFAULT_EXTRAS: [&str; 6] = [
    "authentication.kubernetes.io/credential-id",
    "authentication.kubernetes.io/node-name",
    "authentication.kubernetes.io/node-uid",
    "authentication.kubernetes.io/pod-name",
    "authentication.kubernetes.io/pod-uid",
    "scopes",
];

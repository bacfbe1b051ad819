//! The configuration of the filter bundle, and the few names on which the filters and the control plane must agree.
//!
//! This crate holds shapes only. The control plane serialises them as JSON into Envoy resources, the filters read them
//! once and compile them (`portcullis-core`); nothing here is on the path of a request.
//!
//! - [`FilterConfig`]: the listener's part. Nothing in it changes often, because a change drains connections.
//! - [`ClusterConfig`]: the part of one `UpstreamCluster`, carried by its virtual host, so that an edit of a policy drains
//!   nothing.
//! - [`destination`]: how a decision names the route that it opens.
//! - [`names`]: filter state keys, metadata keys and extension names.

mod cluster;
mod destination;
mod filter;
pub mod names;

pub use cluster::{ClusterConfig, Policy, Rule, ServiceAccount, UpstreamIdentity};
pub use destination::{Pool, RequestClass, destination, destinations};
pub use filter::FilterConfig;

/// The version of this configuration's format. A filter refuses any version that it does not know, so that a rule that
/// it would not understand is never dropped in silence.
pub const CONFIG_VERSION: u32 = 1;

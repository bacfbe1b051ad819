//! The objects that configure the gateway: `UpstreamCluster` and `GatewaySettings`.
//!
//! Each comes in two forms. The raw form ([`UpstreamCluster`], [`GatewaySettings`]) is what a user writes; the checked
//! form ([`Cluster`], [`Settings`]) is what the rest of the control plane works with: addresses parsed, certificates read,
//! names lower-cased, defaults filled in. Only [`check_cluster`] and [`check_settings`] lead from one to the other, and
//! they tell every [`Problem`] with the path of its field.
//!
//! No I/O, no clock, no randomness.

mod check;
mod claims;
mod duration;
mod parse;
mod problem;
mod secret;
mod types;

pub use check::{
    AccessLog, Checked, Cluster, CredentialCache, Endpoint, Gates, Host, KeyPair, Limits, LogMode, PeerName, Policy,
    Schema, Server, Settings, Trust, check_cluster, check_settings,
};
pub use claims::{ClaimKind, Claims, claims_of};
pub use duration::{DurationError, parse_duration};
pub use parse::{
    CLUSTER_API_VERSION, CLUSTER_KIND, ObjectKind, SETTINGS_API_VERSION, SETTINGS_KIND, kind_of, parse_cluster,
    parse_settings,
};
pub use problem::Problem;
pub use secret::{PublicBytes, SecretBytes};
pub use types::{
    AccessLogSettings, Certificate, ClientConfig, CredentialCacheSpec, DispatchPolicy, Exempt, FlowControl,
    FlowControlSchema, GatewaySettings, GatewaySettingsSpec, LimitSettings, ListenerSettings, Logging,
    MaxRequestsInflight, ObjectMeta, PortcullisSpec, Rule, SecureServing, ServerSpec, ServiceAccount, TokenBucket,
    UpstreamCluster, UpstreamClusterSpec,
};

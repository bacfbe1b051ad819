//! The raw objects, as users write them.

mod access;
mod attached;
mod cluster;
mod discovery;
mod fair_queue;
mod flow_control;
mod hsts;
mod identity;
mod instance;
mod kubernetes_upstream;
mod listener;
mod meta;
mod policy;
mod profile;
mod references;
mod settings;
mod shadow;
mod tokens;
mod tracing;
mod tunnel;

pub(crate) use access::{AccessEntry, AccessSpec, ClientAddressSpec};
pub use attached::{AttachedPolicy, AttachedPolicySpec, PolicyTarget};
pub(crate) use attached::{DispatchFields, FlowControlFields, IdentityFields, PolicyFields};
pub(crate) use cluster::PASSTHROUGH;
pub use cluster::{
    ClientConfig, CredentialCacheSpec, HealthCheckSpec, Logging, PortcullisSpec, SecureServing, ServerDetails,
    ServerSpec, UpstreamCluster, UpstreamClusterSpec,
};
pub(crate) use discovery::{DiscoveryService, DiscoverySpec};
pub use fair_queue::{FairQueue, FlowWeight};
pub use flow_control::{Exempt, FlowControl, FlowControlSchema, MaxRequestsInflight, TokenBucket};
pub(crate) use hsts::StrictTransportSecurity;
pub use identity::{RequestHeaderNames, RequestHeaderSpec};
pub use instance::{Instance, InstanceSpec, LabelRequirement, LabelSelector};
pub use kubernetes_upstream::{
    AuthorityInConfigMap, KubernetesUpstream, KubernetesUpstreamSpec, UpstreamAuthority, UpstreamPair,
    UpstreamReferences, UpstreamServer, UpstreamToken,
};
pub use listener::{ListenerAddress, ListenerTlsSettings, TlsVersion};
pub use meta::ObjectMeta;
pub use policy::DispatchPolicy;
pub(crate) use policy::PolicyExtension;
pub(crate) use profile::PolicyProfile;
pub use references::{
    AuthorityInSecret, AuthorityReference, PairInFiles, PairInSecret, PairReference, References, TokenInSecret,
    TokenReference,
};
pub(crate) use settings::ClusterProtectedIdentities;
pub use settings::{
    AccessLogSettings, Certificate, ClientAuthority, ClientCaNames, GatewaySettings, GatewaySettingsSpec,
    LimitSettings, ListenerSettings, MetricsSettings, ProtectedIdentitySettings, ProxyProtocolSettings,
    RebalanceConditions, RebalanceSettings, SecondaryPools, UserMetrics, UserMetricsMode, WildcardSubdomains,
};
pub use shadow::ShadowSpec;
pub(crate) use tokens::{ClaimValidationRule, Jwks, PrefixedClaim, TokenIssuer, TokensSpec};
pub use tracing::{CollectorAuthority, TracingParents, TracingProtocol, TracingSettings, TracingUsers};
pub(crate) use tunnel::TunnelSettings;

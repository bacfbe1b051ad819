//! The objects that configure the gateway: `UpstreamCluster`, `GatewaySettings`, `Instance`, `KubernetesUpstream`, and policies that are attached to others.
//!
//! Each comes in two forms. The raw form ([`UpstreamCluster`], [`GatewaySettings`]) is the one that a user writes; the checked
//! form ([`Cluster`], [`Settings`]) is the one that the rest of the control plane works with: addresses parsed, certificates
//! read, names lower-cased, defaults filled in. Only [`check_cluster`] and [`check_settings`] lead from one to the other, and
//! they report every [`Problem`] with the path of its field. [`lint_cluster`] and [`lint_settings`] look for likely mistakes in
//! accepted objects.
//!
//! [`status`] is the outcome of an object, as conditions.
//!
//! No I/O, no clock, no randomness but in names of members that never leave the process (`drawn_name`).

mod absent_settings;
mod account;
mod attached;
mod bounds;
mod certificate_dates;
mod check;
mod cipher_suites;
mod claims;
mod decode_errors;
mod discovered;
mod dns_name;
mod drawn_name;
mod duration;
mod kind;
mod lint;
mod null_fields;
mod packed;
mod parse;
mod problem;
mod quantity;
mod referenced_data;
mod references;
mod request_part;
mod schema;
mod secret;
mod shadow;
mod shown_keys;
pub mod status;
mod types;

pub use absent_settings::absent_settings;
pub use account::token_account;
pub use attached::{
    FieldOrigin, PolicyInEffect, PolicyRole, TightenError, UpstreamPolicyError, behind_all_doors, behind_door,
    check_door_fields, check_upstream_policy, door_denials, has_fields, origin_of, origins, oversized_policy,
    refused_by_policies, tightened, upstream_rules, with_policies,
};
pub use bounds::{MAX_SELECTOR_TERMS, MAX_SELECTOR_VALUES, MAX_SERVERS, MAX_ZONE};
pub use certificate_dates::{CertificateDates, certificate_dates};
pub use check::{
    AccessLog, AskedIssuer, AttachablePolicy, BUILT_IN_PROFILES, CertificateError, Checked, CheckedInstance,
    CheckedShadow, Cidr, ClientVerification, Cluster, CollectorTls, CredentialCache, Discovery, DiscoveryDocumentError,
    DownstreamTls, Endpoint, FeatureGates, HealthCheck, IssuerUrl, IssuerUrlError, JwksError, KeyPair, LabelOperator,
    LabelOperatorError, Limits, LogMode, MergeStrategy, PASSED_ON, PROFILE_ANNOTATION, PeerName, Policy, ProxyProtocol,
    SelectedLabels, Server, ServerHost, Settings, SlicePort, Strategy, TOKEN_KEYS_PATH, Tokens, Tracing, Transport,
    Trust, Tunnel, UpstreamIdentity, bundle_parts, check_cluster, check_instance, check_policy, check_settings,
    check_upstream, is_allowed_server, is_label_key, is_label_value, read_client_bundle, read_discovery_document,
    read_key_pair, read_keys, targets_of, unchecked_cluster, upstream_key, upstream_of_key, usable_servers,
    with_profile,
};
pub use claims::{ClaimKind, Claims, claims_of};
pub use discovered::{Discovered, DiscoveredServer, discovered_of, with_discovered};
pub use duration::{DurationError, parse_duration};
pub use kind::{
    CLUSTER_API_VERSION, CLUSTER_KIND, INSTANCE_API_VERSION, INSTANCE_KIND, ObjectKind, POLICY_API_VERSION, PolicyKind,
    SETTINGS_API_VERSION, SETTINGS_KIND, UPSTREAM_API_VERSION, UPSTREAM_KIND, kind_of,
};
pub use lint::{lint_cluster, lint_settings};
pub use packed::pack_policies;
pub use parse::{
    cluster_mistakes, instance_mistakes, parse_cluster, parse_instance, parse_settings, parse_upstream,
    settings_mistakes, without_nulls,
};
pub use problem::Problem;
pub use problem::ProblemCode;
pub use referenced_data::{
    ReferencedData, SECRET_LABEL, SETTINGS_SECRET_LABEL, SHARED_ANNOTATION, SecretData, UPSTREAM_SECRET_LABEL,
    UPSTREAM_SHARED_ANNOTATION, UpstreamMaterial,
};
pub use references::{
    Resolution, UnresolvedUpstream, UpstreamContent, assumed_material, content_of_references, reference_of_path,
    referenced_files, referred_by_upstream, resolve, resolve_settings, upstream_material, with_placeholders,
    without_references,
};
pub use schema::{
    cluster_definition, instance_definition, policy_definition, settings_definition, upstream_definition,
};
pub use secret::{PublicBytes, SecretBytes};
pub use shadow::{merge_patch, promote};
pub use shown_keys::{KeySource, ShownKeys, put_shown_keys, shown_keys_of};
pub use types::{
    AccessLogSettings, AttachedPolicy, AttachedPolicySpec, AuthorityInConfigMap, AuthorityInSecret, AuthorityReference,
    Certificate, ClientAuthority, ClientCaNames, ClientConfig, CollectorAuthority, CredentialCacheSpec, DispatchPolicy,
    Exempt, FairQueue, FlowControl, FlowControlSchema, FlowWeight, GatewaySettings, GatewaySettingsSpec,
    HealthCheckSpec, Instance, InstanceSpec, KubernetesUpstream, KubernetesUpstreamSpec, LabelRequirement,
    LabelSelector, LimitSettings, ListenerAddress, ListenerSettings, ListenerTlsSettings, Logging, MaxRequestsInflight,
    MetricsSettings, ObjectMeta, PairInFiles, PairInSecret, PairReference, PolicyTarget, PortcullisSpec,
    ProtectedIdentitySettings, ProxyProtocolSettings, RebalanceConditions, RebalanceSettings, References,
    RequestHeaderNames, RequestHeaderSpec, SecondaryPools, SecureServing, ServerDetails, ServerSpec, ShadowSpec,
    TlsVersion, TokenBucket, TokenInSecret, TokenReference, TracingParents, TracingProtocol, TracingSettings,
    TracingUsers, UpstreamAuthority, UpstreamCluster, UpstreamClusterSpec, UpstreamPair, UpstreamReferences,
    UpstreamServer, UpstreamToken, UserMetrics, UserMetricsMode, WildcardSubdomains,
};

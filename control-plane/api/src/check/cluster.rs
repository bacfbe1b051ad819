use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use portcullis_filter_config::{AccessLists, AccessScope, FairQueueConfig, FlowControlSchema, ProtectedIdentities};

use super::access::{check_access, check_client_addresses};
use super::certificates::{KeyPair, read_client_bundle, read_key_pair};
use super::cidr::Cidr;
use super::client::{PeerName, Trust, check_client};
use super::credentials::{CredentialCache, check_credential_cache, check_extras};
use super::denials::{check_denials, check_heartbeats};
use super::discovery::{Discovery, add_discovered, check_discovery};
use super::fair_queue::check_fair_queues;
use super::feature_gates::{FeatureGates, check_gates};
use super::flow_control::check_flow_control;
use super::health::{HealthCheck, check_health};
use super::identity::{UpstreamIdentity, check_identity};
use super::logging::{LogMode, check_log_mode, check_slow};
use super::object_size::check_size;
use super::origins::check_origins;
use super::policies::{Policy, check_policies, check_spelling, deciding_alone};
use super::profiles::{InEffect, Surroundings, behind_denials, check_profiles};
use super::protected::check_cluster_protected;
use super::servers::check_details;
use super::servers::check_virtual_ips;
use super::servers::{Server, check_servers};
use super::shadow::{CheckedShadow, RealParts, check_shadow};
use super::tokens::{Tokens, check_tokens};
use super::transport::{Transport, check_passthrough, check_transport};
use super::{Checked, Findings};
use crate::dns_name::{is_dns_name, is_served_name};
use crate::duration::parse_duration;
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::references::check_references;
use crate::secret::{PublicBytes, SecretBytes};
use crate::types::{ClientConfig, SecureServing, UpstreamCluster};

/// The default of `spec.portcullis.requestTimeout`: longer than the 60 s of kube-apiserver.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(75);
/// The default of `spec.portcullis.drainPeriod`: shorter than Envoy's drain time (10 minutes), so that it is what ends
/// streams, and long enough to bring a command in a container to its end.
const DRAIN_PERIOD: Duration = Duration::from_secs(300);
/// Longest drain period.
const MAX_DRAIN_PERIOD: Duration = Duration::from_secs(24 * 3600);
/// Shortest and longest session limit.
const SESSION_LIMITS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(720 * 3600);

/// The checked form of an `UpstreamCluster`.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `metadata.name`, lower-case; of a `KubernetesUpstream` its [`crate::upstream_key`].
    pub name: String,
    /// `metadata.uid`, if the source gives one.
    pub uid: Option<String>,
    /// `metadata.creationTimestamp`, if the source gives one.
    pub creation_timestamp: Option<String>,
    /// More host names, lower-case, each once, without `name`.
    pub server_names: Vec<String>,
    /// Addresses at which it is served whatever name a client asks for, each once.
    pub virtual_ips: Vec<IpAddr>,
    /// Authorities that are accepted beside the served names.
    pub extra_authorities: Vec<String>,
    /// The kube-apiservers, sorted, each once.
    pub servers: Vec<Server>,
    /// The source of servers that are not written in it.
    pub discovery: Option<Discovery>,
    /// Whether connections are judged or passed on.
    pub transport: Transport,
    /// The name that the servers' certificates must carry.
    pub peer_name: PeerName,
    /// Which servers' certificates are trusted.
    pub trust: Trust,
    /// The gateway's client certificate. This or `token` is set, unless connections are passed on.
    pub certificate: Option<KeyPair>,
    /// The gateway's token. This or `certificate` is set, unless connections are passed on.
    pub token: Option<SecretBytes>,
    /// The serving certificate; `None` is the gateway's default.
    pub serving: Option<KeyPair>,
    /// The CAs of client certificates, PEM. `None` is the gateway's default, if it has one.
    pub client_ca: Option<PublicBytes>,
    /// The requests that the access log has, as far as their policy leaves it open.
    pub log_mode: LogMode,
    /// The time from which on a request is logged as slow, if any is.
    pub log_slow: Option<Duration>,
    /// Whether requests that are answered with 5xx are logged.
    pub log_failed: bool,
    /// When a client certificate is verified.
    pub client_verification: ClientVerification,
    /// Client addresses that may connect; empty is all.
    pub client_addresses: Vec<Cidr>,
    /// Its own access lists, if it has any.
    pub access: Option<AccessLists>,
    /// The identities that no user may act as here, beside those of the settings, which say whether groups are dropped.
    pub protected: Option<ProtectedIdentities>,
    /// The profile that is in effect, whose policies and limits these are; `None` if they are those of the spec.
    pub profile: Option<String>,
    /// Dispatch policies, in order. One that only reports has no rules here.
    pub policies: Vec<Policy>,
    /// The alternative by which requests are judged beside, if anything only reports.
    pub shadow: Option<CheckedShadow>,
    /// How long a request may take that is no watch, session or upgrade.
    pub request_timeout: Duration,
    /// How long watches and sessions may outlive the server that they run on, once it is removed.
    pub drain_period: Duration,
    /// After how long a session is ended, if at all.
    pub max_session_duration: Option<Duration>,
    /// How it is found out whether a server is healthy.
    pub health_check: HealthCheck,
    /// The effects of its feature gates.
    pub gates: FeatureGates,
    /// Limits that policies may name.
    pub schemas: Vec<FlowControlSchema>,
    /// Limits that policies may name, beyond which requests wait.
    pub fair_queues: Vec<FairQueueConfig>,
    /// Whether requests without a credential are let through.
    pub allow_anonymous: bool,
    /// For how long answers about credentials are believed.
    pub credential_cache: CredentialCache,
    /// How tokens are reviewed and verified.
    pub tokens: Tokens,
    /// Whether the control plane reads keys of tokens from the servers.
    pub token_keys_from_servers: bool,
    /// Keys of extra attributes beside the default ones, sorted, each once.
    pub forwarded_extras: Vec<String>,
    /// Whether the servers' audit logs show the origin of a request.
    pub audit_attribution: bool,
    /// Whether grants of constrained impersonation count.
    pub constrained_impersonation: bool,
    /// How the servers learn who sends a request.
    pub upstream_identity: UpstreamIdentity,
}

/// When a client certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientVerification {
    /// At each request, as kube-apiserver does: a client with an expired certificate and a good token gets in.
    Request,
    /// In the handshake, too: a client whose certificate does not verify gets no connection.
    Handshake,
}

/// Checks an `UpstreamCluster`. `allow_loopback` is `allowLoopbackUpstreams` of the settings.
pub fn check_cluster(raw: &UpstreamCluster, allow_loopback: bool) -> Checked<Cluster> {
    let mut findings = Findings::default();
    let mut cluster = None;
    if check_size(&raw.spec, &mut findings) {
        let (problems, raw) = check_references(raw);
        findings.problems.extend(problems);
        cluster = read(&raw, check_name(&raw, &mut findings), allow_loopback, &mut findings);
    }
    check_origins(raw, &mut findings);
    findings.finish(cluster)
}

/// The checked form of an `UpstreamCluster` whatever is wrong with it, and with a credential that is none: for tools that
/// explain what its policies mean. It must not be served.
pub fn unchecked_cluster(raw: &UpstreamCluster) -> Option<Cluster> {
    let mut raw = raw.clone();
    raw.spec.client_config = ClientConfig {
        insecure: true,
        bearer_token: SecretBytes::new(b"none".to_vec()),
        server_name: "explained.invalid".to_owned(),
        ..ClientConfig::default()
    };
    read(&raw, raw.metadata.name.to_ascii_lowercase(), true, &mut Findings::default())
}

/// The checked form under a name. Size and references are checked before.
pub(super) fn read(
    raw: &UpstreamCluster,
    name: String,
    allow_loopback: bool,
    findings: &mut Findings,
) -> Option<Cluster> {
    let mut gates = check_gates(&raw.metadata, findings);
    let log_mode = check_log_mode(&raw.spec.logging.mode, "spec.logging.mode".to_owned(), findings);
    let mut schemas = check_flow_control(&raw.spec.flow_control, gates.global_limits, findings);
    let fair_queues = check_fair_queues(&raw.spec, findings);
    let mut servers = check_servers(&raw.spec, allow_loopback, findings);
    check_details(&raw.spec.portcullis.servers, &mut servers, findings);
    let transport = check_transport(&raw.spec.portcullis.transport, findings);
    let is_needed = transport == Transport::Terminate;
    let client = check_client(&raw.spec.client_config, &name, is_needed, findings);
    let trust = client.as_ref().map(|client| &client.trust);
    let discovery = check_discovery(raw.spec.portcullis.discovery.as_ref(), trust, findings);
    let mut policies = check_policies(&raw.spec, &servers, findings);
    check_spelling(&raw.spec, findings);
    let serving = check_serving(&raw.spec.secure_serving, findings);
    let client_ca = check_client_ca(&raw.spec.secure_serving, findings);
    let client_verification = check_verification(raw, findings);
    let server_names = check_server_names(&raw.spec.secure_serving.server_names, &name, findings);
    let virtual_ips = check_virtual_ips(&raw.spec.portcullis.virtual_ips, findings);
    let extra_authorities = check_authorities(&raw.spec.portcullis.extra_authorities, &name, findings);
    let request_timeout = check_timeout(raw.spec.portcullis.request_timeout.as_deref(), findings);
    let drain_period = check_drain_period(raw.spec.portcullis.drain_period.as_deref(), findings);
    let max_session_duration =
        check_max_session_duration(raw.spec.portcullis.max_session_duration.as_deref(), findings);
    let log_slow = check_slow(raw.spec.portcullis.logging.slow.as_deref(), findings);
    let health_check = check_health(&raw.spec.portcullis.health_check, findings);
    let allow_anonymous = raw.spec.portcullis.allow_anonymous.unwrap_or(true);
    let credential_cache = check_credential_cache(&raw.spec.portcullis.credential_cache, findings);
    let forwarded_extras = check_extras(&raw.spec.portcullis.forwarded_extras, findings);
    let tokens = check_tokens(raw, allow_loopback, findings);
    let upstream_identity = check_identity(&raw.spec, findings);
    let access = check_access(&raw.spec.portcullis.access, "spec.portcullis.access", AccessScope::Cluster, findings);
    let protected = check_cluster_protected(&raw.spec.portcullis.protected_identities, findings);
    let names = 1 + server_names.len() + virtual_ips.len();
    let client_addresses = check_client_addresses(&raw.spec.portcullis.client_addresses, names, findings);
    let deciding = raw.spec.deciding_policies();
    check_heartbeats(&deciding, findings);
    check_denials(&deciding, &upstream_identity, findings);
    let real = RealParts {
        servers: &servers,
        identity: &upstream_identity,
        access: access.as_ref(),
        has_global_limits: gates.global_limits,
    };
    let mut shadow = check_shadow(&raw.spec, &real, findings);
    policies = deciding_alone(policies, &raw.spec);
    let around = Surroundings { servers: &servers, identity: &upstream_identity, gates: &gates };
    let profile = check_profiles(raw, &around, findings).map(|InEffect { name, policies: of_profile }| {
        // Nothing only reports meanwhile: it would be compared with policies that it is no alternative to.
        shadow = None;
        match of_profile {
            Some(own) => (policies, schemas) = behind_denials(raw, std::mem::take(&mut policies), own),
            None => gates.deny_all_requests = true,
        }
        name
    });
    if transport == Transport::Passthrough {
        check_passthrough(raw, &gates, profile.as_deref(), findings);
        // No policy of the profile can hold for what is not read.
        gates.deny_all_requests |= profile.is_some();
    }
    // Subsets name written servers only.
    add_discovered(raw, discovery.as_ref(), allow_loopback, &mut servers, findings);
    client.map(|client| Cluster {
        name,
        uid: raw.metadata.uid.clone().filter(|uid| !uid.is_empty()),
        creation_timestamp: raw.metadata.creation_timestamp.clone().filter(|time| !time.is_empty()),
        server_names,
        virtual_ips,
        extra_authorities,
        servers,
        discovery,
        transport,
        peer_name: client.peer_name,
        trust: client.trust,
        certificate: client.certificate,
        token: client.token,
        serving,
        client_ca,
        log_mode,
        log_slow,
        log_failed: raw.spec.portcullis.logging.failed.unwrap_or(true),
        client_verification,
        client_addresses,
        access,
        protected,
        profile,
        policies,
        shadow,
        request_timeout,
        drain_period,
        max_session_duration,
        health_check,
        gates,
        schemas,
        fair_queues,
        allow_anonymous,
        credential_cache,
        tokens,
        token_keys_from_servers: is_needed
            && raw.spec.portcullis.tokens.issuers.iter().any(|issuer| issuer.jwks.from_servers),
        forwarded_extras,
        audit_attribution: raw.spec.portcullis.audit_attribution,
        constrained_impersonation: raw.spec.portcullis.constrained_impersonation,
        upstream_identity,
    })
}

fn check_name(raw: &UpstreamCluster, findings: &mut Findings) -> String {
    let name = raw.metadata.name.to_ascii_lowercase();
    if !is_dns_name(&name) {
        findings.problem("metadata.name", "must be a DNS name, because it is the host name that is served");
    } else if name != raw.metadata.name {
        findings.problem("metadata.name", "must be lower-case, as every name of Kubernetes");
    }
    if raw.metadata.namespace.as_deref().is_some_and(|namespace| !namespace.is_empty()) {
        let message = "is ignored: an UpstreamCluster is cluster-scoped";
        findings.warn(Problem::coded(ProblemCode::NoEffect, "metadata.namespace", message));
    }
    name
}

pub(super) fn check_verification(raw: &UpstreamCluster, findings: &mut Findings) -> ClientVerification {
    let path = "spec.portcullis.clientCertificateVerification";
    match raw.spec.portcullis.client_certificate_verification.as_str() {
        "" | "Request" => ClientVerification::Request,
        "Handshake" => ClientVerification::Handshake,
        _ => {
            findings.problem(path, "must be Request or Handshake");
            ClientVerification::Request
        }
    }
}

fn check_serving(raw: &SecureServing, findings: &mut Findings) -> Option<KeyPair> {
    match (raw.cert_data.is_empty(), raw.key_data.is_empty()) {
        (true, true) => None,
        (false, false) => read_key_pair(&raw.cert_data, &raw.key_data)
            .map_err(|error| findings.problem("spec.secureServing.certData", error.to_string()))
            .ok(),
        (cert_missing, _) => {
            let missing = if cert_missing { "certData" } else { "keyData" };
            let message = format!("{missing} is missing: the gateway's default certificate is served");
            let hint = "set certData and keyData together; KubeGateway kept the pair that it had before";
            findings.warn(Problem::coded(ProblemCode::Caution, "spec.secureServing", message).hint(hint));
            None
        }
    }
}

fn check_client_ca(raw: &SecureServing, findings: &mut Findings) -> Option<PublicBytes> {
    if raw.client_ca_data.is_empty() {
        return None;
    }
    read_client_bundle(&raw.client_ca_data)
        .map_err(|error| findings.problem("spec.secureServing.clientCAData", error.to_string()))
        .ok()
}

/// Names of which no client can ask are left out, as KubeGateway's are never asked for.
fn check_server_names(raw: &[String], own: &str, findings: &mut Findings) -> Vec<String> {
    served_names(raw, own, |index| {
        let path = format!("spec.secureServing.serverNames[{index}]");
        let message = "is not served: it is neither a DNS name nor *. before one of two or more labels";
        findings.warn(Problem::coded(ProblemCode::NeverMatches, path, message));
    })
}

fn check_authorities(raw: &[String], own: &str, findings: &mut Findings) -> Vec<String> {
    served_names(raw, own, |index| {
        let path = format!("spec.portcullis.extraAuthorities[{index}]");
        findings.problem(path, "must be a DNS name or *. before one of two or more labels");
    })
}

fn served_names(raw: &[String], own: &str, mut on_invalid: impl FnMut(usize)) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(raw.len());
    for (index, name) in raw.iter().enumerate() {
        let name = name.to_ascii_lowercase();
        if !is_served_name(&name) {
            on_invalid(index);
        } else if name != own && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn check_timeout(raw: Option<&str>, findings: &mut Findings) -> Duration {
    let path = "spec.portcullis.requestTimeout";
    match raw.map(parse_duration) {
        None => REQUEST_TIMEOUT,
        Some(Ok(timeout)) if (1..=3600).contains(&timeout.as_secs()) => timeout,
        Some(Ok(_)) => {
            findings.problem(path, "must be from 1s to 1h");
            REQUEST_TIMEOUT
        }
        Some(Err(error)) => {
            findings.problem(path, error.to_string());
            REQUEST_TIMEOUT
        }
    }
}

fn check_drain_period(raw: Option<&str>, findings: &mut Findings) -> Duration {
    let problem = match raw.map(parse_duration) {
        None => return DRAIN_PERIOD,
        Some(Ok(period)) if period <= MAX_DRAIN_PERIOD => return period,
        Some(Ok(_)) => "must be from 0 to 24h".to_owned(),
        Some(Err(error)) => error.to_string(),
    };
    findings.problem("spec.portcullis.drainPeriod", problem);
    DRAIN_PERIOD
}

/// 0 is refused: it could mean no session as well as no limit.
fn check_max_session_duration(raw: Option<&str>, findings: &mut Findings) -> Option<Duration> {
    let problem = match parse_duration(raw?) {
        Ok(limit) if SESSION_LIMITS.contains(&limit) => return Some(limit),
        Ok(_) => "must be from 1s to 720h; omit it for sessions without a limit".to_owned(),
        Err(error) => error.to_string(),
    };
    findings.problem("spec.portcullis.maxSessionDuration", problem);
    None
}

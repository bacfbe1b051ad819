use std::time::Duration;

use super::authority::{is_dns_name, is_served_name};
use super::certificates::{KeyPair, read_bundle, read_pair};
use super::client::{PeerName, Trust, check_client};
use super::credentials::{CredentialCache, check_credential_cache};
use super::flow_control::{Schema, check_flow_control};
use super::gates::{Gates, check_gates};
use super::logging::{LogMode, check_log_mode};
use super::policies::{Policy, check_policies};
use super::servers::{Server, check_servers};
use super::{Checked, Findings};
use crate::{PublicBytes, SecretBytes, SecureServing, UpstreamCluster, parse_duration};

/// The default of `spec.portcullis.requestTimeout`: longer than the 60 s of kube-apiserver.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(75);

/// The checked form of an `UpstreamCluster`.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `metadata.name`, lower-case.
    pub name: String,
    /// `metadata.uid`, if the source gives one.
    pub uid: Option<String>,
    /// `metadata.creationTimestamp`, if the source gives one.
    pub creation_timestamp: Option<String>,
    /// More host names, lower-case, each once, without `name`.
    pub server_names: Vec<String>,
    /// Authorities that are accepted beside the served names.
    pub extra_authorities: Vec<String>,
    /// The kube-apiservers, sorted, each once.
    pub servers: Vec<Server>,
    /// The name that the servers' certificates must carry.
    pub peer_name: PeerName,
    /// Which servers' certificates are trusted.
    pub trust: Trust,
    /// The gateway's client certificate. This or `token` is set.
    pub certificate: Option<KeyPair>,
    /// The gateway's token. This or `certificate` is set.
    pub token: Option<SecretBytes>,
    /// The serving certificate; `None` is the gateway's default.
    pub serving: Option<KeyPair>,
    /// The CAs of client certificates, PEM.
    pub client_ca: Option<PublicBytes>,
    /// Which requests the access log tells, as far as their policy leaves it open.
    pub log_mode: LogMode,
    /// Dispatch policies, in order.
    pub policies: Vec<Policy>,
    /// How long a request may take that is no watch, session or upgrade.
    pub request_timeout: Duration,
    /// What its feature gates ask for.
    pub gates: Gates,
    /// Limits of requests in flight that policies may name.
    pub schemas: Vec<Schema>,
    /// Whether requests without a credential are let through.
    pub anonymous: bool,
    /// For how long answers about credentials are believed.
    pub credential_cache: CredentialCache,
}

/// Checks an `UpstreamCluster`. `allow_loopback` is `allowLoopbackUpstreams` of the settings.
pub fn check_cluster(raw: &UpstreamCluster, allow_loopback: bool) -> Checked<Cluster> {
    let mut findings = Findings::default();
    let name = check_name(raw, &mut findings);
    let gates = check_gates(&raw.metadata, &mut findings);
    let log_mode = check_log_mode(&raw.spec.logging.mode, "spec.logging.mode".to_owned(), &mut findings);
    let schemas = check_flow_control(&raw.spec.flow_control, &mut findings);
    let servers = check_servers(&raw.spec.servers, allow_loopback, &mut findings);
    let client = check_client(&raw.spec.client_config, &name, &mut findings);
    let policies = check_policies(&raw.spec.dispatch_policies, &servers, &raw.spec.flow_control, &mut findings);
    let serving = check_serving(&raw.spec.secure_serving, &mut findings);
    let client_ca = check_client_ca(&raw.spec.secure_serving, &mut findings);
    let server_names =
        served_names(&raw.spec.secure_serving.server_names, "spec.secureServing.serverNames", &name, &mut findings);
    let extra_authorities =
        served_names(&raw.spec.portcullis.extra_authorities, "spec.portcullis.extraAuthorities", &name, &mut findings);
    let request_timeout = check_timeout(raw.spec.portcullis.request_timeout.as_deref(), &mut findings);
    let anonymous = raw.spec.portcullis.anonymous.unwrap_or(true);
    let credential_cache = check_credential_cache(&raw.spec.portcullis.credential_cache, &mut findings);
    let cluster = client.map(|client| Cluster {
        name,
        uid: raw.metadata.uid.clone().filter(|uid| !uid.is_empty()),
        creation_timestamp: raw.metadata.creation_timestamp.clone().filter(|time| !time.is_empty()),
        server_names,
        extra_authorities,
        servers,
        peer_name: client.peer_name,
        trust: client.trust,
        certificate: client.certificate,
        token: client.token,
        serving,
        client_ca,
        log_mode,
        policies,
        request_timeout,
        gates,
        schemas,
        anonymous,
        credential_cache,
    });
    findings.finish(cluster)
}

fn check_name(raw: &UpstreamCluster, findings: &mut Findings) -> String {
    let name = raw.metadata.name.to_ascii_lowercase();
    if !is_dns_name(&name) {
        findings.problem("metadata.name", "must be a DNS name, because it is the host name that is served");
    }
    if raw.metadata.namespace.as_deref().is_some_and(|namespace| !namespace.is_empty()) {
        findings.problem("metadata.namespace", "must be empty: an UpstreamCluster is cluster-scoped");
    }
    name
}

fn check_serving(raw: &SecureServing, findings: &mut Findings) -> Option<KeyPair> {
    match (raw.cert_data.is_empty(), raw.key_data.is_empty()) {
        (true, true) => None,
        (false, false) => read_pair(&raw.cert_data, &raw.key_data)
            .map_err(|error| findings.problem("spec.secureServing.certData", error.to_string()))
            .ok(),
        _ => {
            findings.problem("spec.secureServing", "certData and keyData must be set together");
            None
        }
    }
}

fn check_client_ca(raw: &SecureServing, findings: &mut Findings) -> Option<PublicBytes> {
    if raw.client_ca_data.is_empty() {
        return None;
    }
    read_bundle(&raw.client_ca_data)
        .map_err(|error| findings.problem("spec.secureServing.clientCAData", error.to_string()))
        .ok()
}

fn served_names(raw: &[String], path: &str, own: &str, findings: &mut Findings) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(raw.len());
    for (index, name) in raw.iter().enumerate() {
        let name = name.to_ascii_lowercase();
        if !is_served_name(&name) {
            findings.problem(format!("{path}[{index}]"), "must be a DNS name or *. before one of two or more labels");
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

//! `KubernetesUpstreams`: the same checked form as that of an `UpstreamCluster` with these fields, and with the rules of the policies
//! that are attached to it.

use serde_json::Value;

use super::cluster::{ClientVerification, Cluster, read};
use super::endpoint::{ServerHost, parse_endpoint};
use super::origins::check_origins;
use super::{Checked, Findings};
use crate::bounds::{MAX_POLICIES, MAX_UPSTREAM_SERVERS};
use crate::dns_name::is_dns_label;
use crate::parse::parse_part;
use crate::referenced_data::UpstreamMaterial;
use crate::types::{
    ClientConfig, KubernetesUpstream, ObjectMeta, PairReference, PortcullisSpec, References, SecureServing,
    ServerDetails, ServerSpec, TokensSpec, UpstreamCluster, UpstreamClusterSpec, UpstreamServer,
};

/// The key of a `KubernetesUpstream` beside the names of `UpstreamClusters`, none of which has a slash.
pub fn upstream_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Namespace and name of a `KubernetesUpstream` by its key; none of an `UpstreamCluster`'s name.
pub fn upstream_of_key(key: &str) -> Option<(&str, &str)> {
    key.split_once('/')
}

/// Checks a `KubernetesUpstream` with the content of its references and its rules ([`crate::upstream_rules`], with those of doors by
/// [`crate::behind_door`]). `allow_loopback` is `allowLoopbackUpstreams` of the settings. The checked form has the object's
/// [`upstream_key`] as its name, and no host name.
pub fn check_upstream(
    raw: &KubernetesUpstream,
    material: &UpstreamMaterial,
    rules: &Value,
    allow_loopback: bool,
) -> Checked<Cluster> {
    let mut findings = Findings::default();
    let namespace = raw.metadata.namespace.as_deref().unwrap_or_default();
    check_names(raw, namespace, &mut findings);
    if !check_servers(raw, &mut findings) {
        return findings.finish(None);
    }
    let Some(of_policies) = rules.get("spec").and_then(parse_part::<UpstreamClusterSpec>) else {
        findings.problem("", "its policies cannot be read");
        return findings.finish(None);
    };
    if !check_count(of_policies.dispatch_policies.len(), &mut findings) {
        return findings.finish(None);
    }
    check_references(raw, &mut findings);
    let mut of_cluster = Findings::default();
    let name = upstream_key(namespace, &raw.metadata.name);
    let as_cluster = UpstreamCluster { status: rules.get("status").cloned(), ..as_cluster(raw, material, of_policies) };
    let cluster = read(&as_cluster, name, allow_loopback, &mut of_cluster);
    check_origins(&as_cluster, &mut of_cluster);
    for mut problem in of_cluster.problems {
        problem.path = own_path(&problem.path);
        // One problem for a field: its own comes first.
        if findings.problems.iter().all(|known| known.path != problem.path) {
            findings.problems.push(problem);
        }
    }
    findings.warnings.extend(of_cluster.warnings.into_iter().map(|mut warning| {
        warning.path = own_path(&warning.path);
        warning
    }));
    if let Some(cluster) = &cluster
        && cluster.client_verification == ClientVerification::Handshake
        && cluster.client_ca.is_none()
    {
        let message = "needs references.clientCA: without it no certificate verifies";
        findings.problem("spec.clientCertificateVerification", message);
    }
    findings.finish(cluster)
}

fn check_names(raw: &KubernetesUpstream, namespace: &str, findings: &mut Findings) {
    if !is_dns_label(&raw.metadata.name) {
        findings.problem("metadata.name", "must be a DNS label: lower-case letters, digits and -, up to 63");
    }
    if !is_dns_label(namespace) {
        findings.problem("metadata.namespace", "is required: the kind is namespaced");
    }
}

/// Whether the list of servers is within its bounds. Tenants write them, so that no address is left to be found out later.
fn check_servers(raw: &KubernetesUpstream, findings: &mut Findings) -> bool {
    for (index, server) in raw.spec.servers.iter().take(MAX_UPSTREAM_SERVERS).enumerate() {
        let parsed = parse_endpoint(&server.endpoint).map(|parsed| parsed.endpoint.host);
        if let Ok(ServerHost::Dns(_)) = parsed {
            let message = "must have an IP address: a name may lead elsewhere by the time that Envoy resolves it";
            findings.problem(format!("spec.servers[{index}].endpoint"), message);
        }
    }
    let is_within = raw.spec.servers.len() <= MAX_UPSTREAM_SERVERS;
    if !is_within {
        findings.problem("spec.servers", format!("must not have more than {MAX_UPSTREAM_SERVERS} entries"));
    }
    is_within
}

/// Whether there are as few dispatch policies as an `UpstreamCluster` may have.
fn check_count(count: usize, findings: &mut Findings) -> bool {
    let is_within = count <= MAX_POLICIES;
    if !is_within {
        let message =
            format!("with the policies of Gateways and routes it has {count}: at most {MAX_POLICIES} are possible");
        findings.problem("spec", message);
    }
    is_within
}

fn check_references(raw: &KubernetesUpstream, findings: &mut Findings) {
    let references = &raw.spec.references;
    if raw.spec.server_name.is_empty() {
        findings.problem("spec.serverName", "is required: the name in the servers' certificates");
    }
    if references.upstream_ca.is_none() {
        findings.problem("spec.references.upstreamCA", "is required: servers are always verified");
    }
    let authorities = [("upstreamCA", &references.upstream_ca), ("clientCA", &references.client_ca)];
    for (name, authority) in authorities {
        if authority.as_ref().is_some_and(|one| one.config_map.is_some() == one.secret.is_some()) {
            findings.problem(format!("spec.references.{name}"), "exactly one of configMap and secret is required");
        }
    }
    if references.client.is_some() == references.token.is_some() {
        findings.problem("spec.references", "exactly one of client and token is required");
    }
}

/// The `UpstreamCluster` with these fields, and those of policies.
fn as_cluster(
    raw: &KubernetesUpstream,
    material: &UpstreamMaterial,
    of_policies: UpstreamClusterSpec,
) -> UpstreamCluster {
    let spec = &raw.spec;
    let servers = spec.servers.iter();
    let server = |one: &UpstreamServer| ServerSpec { endpoint: one.endpoint.clone(), disabled: one.disabled };
    let details = |one: &UpstreamServer| ServerDetails {
        endpoint: one.endpoint.clone(),
        zone: one.zone.clone(),
        weight: one.weight,
    };
    let has_details = spec.servers.iter().any(|server| !server.zone.is_empty() || server.weight.is_some());
    UpstreamCluster {
        api_version: crate::CLUSTER_API_VERSION.to_owned(),
        kind: crate::CLUSTER_KIND.to_owned(),
        // Annotations choose profiles and feature gates, which this kind has not.
        metadata: ObjectMeta {
            uid: raw.metadata.uid.clone(),
            creation_timestamp: raw.metadata.creation_timestamp.clone(),
            ..ObjectMeta::default()
        },
        spec: UpstreamClusterSpec {
            servers: servers.clone().map(server).collect(),
            client_config: ClientConfig {
                bearer_token: material.token.clone(),
                key_data: material.key.clone(),
                cert_data: material.certificate.clone(),
                ca_data: material.upstream_ca.clone(),
                server_name: spec.server_name.clone(),
                ..ClientConfig::default()
            },
            secure_serving: SecureServing { client_ca_data: material.client_ca.clone(), ..SecureServing::default() },
            dispatch_policies: of_policies.dispatch_policies,
            flow_control: of_policies.flow_control,
            portcullis: PortcullisSpec {
                fair_queues: of_policies.portcullis.fair_queues,
                servers: servers.filter(|_| has_details).map(details).collect(),
                request_timeout: spec.request_timeout.clone(),
                drain_period: spec.drain_period.clone(),
                max_session_duration: spec.max_session_duration.clone(),
                health_check: spec.health_check.clone(),
                allow_anonymous: spec.allow_anonymous,
                client_certificate_verification: spec.client_certificate_verification.clone(),
                upstream_identity: spec.upstream_identity.clone(),
                request_header: spec.request_header.clone(),
                credential_cache: spec.credential_cache.clone(),
                tokens: TokensSpec { audiences: spec.token_audiences.clone(), ..TokensSpec::default() },
                forwarded_extras: spec.forwarded_extras.clone(),
                audit_attribution: spec.audit_attribution,
                constrained_impersonation: spec.constrained_impersonation,
                // By it the checks know a placeholder for a pair.
                references: References {
                    client: spec.references.client.as_ref().map(|_| PairReference::default()),
                    ..References::default()
                },
                ..PortcullisSpec::default()
            },
            ..UpstreamClusterSpec::default()
        },
        status: None,
    }
}

/// The path of a field here, by that in an `UpstreamCluster`.
fn own_path(path: &str) -> String {
    const MOVED: [(&str, &str); 8] = [
        ("spec.clientConfig.serverName", "spec.serverName"),
        ("spec.clientConfig.caData", "spec.references.upstreamCA"),
        ("spec.clientConfig.certData", "spec.references.client"),
        ("spec.clientConfig.keyData", "spec.references.client"),
        ("spec.clientConfig.bearerToken", "spec.references.token"),
        ("spec.clientConfig", "spec.references"),
        ("spec.secureServing.clientCAData", "spec.references.clientCA"),
        ("spec.portcullis.tokens.audiences", "spec.tokenAudiences"),
    ];
    for (of_cluster, own) in MOVED {
        if let Some(rest) = path.strip_prefix(of_cluster) {
            return format!("{own}{rest}");
        }
    }
    path.strip_prefix("spec.portcullis.").map_or_else(|| path.to_owned(), |rest| format!("spec.{rest}"))
}

#[cfg(test)]
mod tests;

//! Connections that are passed on instead of being judged, and the fields that then mean nothing.
//!
//! Passing on has to be one edit away, so that everything that a judged object has may stay in it. Two kinds of fields are an
//! exception. Those that keep users or requests out refuse the object, because passing on would let them in. And a profile in
//! effect closes connections: refused, the object would be served as it was before, open. All others are warned of, one by one.

use super::{FeatureGates, Findings};
use crate::problem::{Problem, ProblemCode};
use crate::types::{PASSTHROUGH, PortcullisSpec, UpstreamCluster, UpstreamClusterSpec};

/// The treatment of clients' connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TLS ends at the gateway, and each request is judged.
    #[default]
    Terminate,
    /// Connections go to a server as they are, by the name in their handshake.
    Passthrough,
}

impl Transport {
    /// As it is written in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Transport::Terminate => "TLSTerminate",
            Transport::Passthrough => PASSTHROUGH,
        }
    }
}

const PATH: &str = "spec.portcullis.transport";

/// The consequence of passing connections on, for all who look at the object or ask about a request.
pub const PASSED_ON: &str = "connections are passed on, not judged: servers see the clients' own credentials, and no identity, policy or limit of the gateway applies";

pub(super) fn check_transport(raw: &str, findings: &mut Findings) -> Transport {
    match raw {
        "" | "TLSTerminate" => Transport::Terminate,
        PASSTHROUGH => Transport::Passthrough,
        _ => {
            findings.problem(PATH, "must be TLSTerminate or TLSPassthrough");
            Transport::Terminate
        }
    }
}

/// Looks through an object whose connections are passed on. `profile`: the one that is in effect, for which the caller closes
/// connections.
pub(super) fn check_passthrough(
    raw: &UpstreamCluster,
    gates: &FeatureGates,
    profile: Option<&str>,
    findings: &mut Findings,
) {
    findings.warn(Problem::coded(ProblemCode::PassedOn, PATH, PASSED_ON));
    // One that closes all connections keeps out everyone: refused, the version before would go on, open.
    let is_closed = gates.deny_all_requests || profile.is_some();
    for (path, is_set) in keeps_out(&raw.spec) {
        if is_set && !is_closed {
            let hint = "remove it, or go back to TLSTerminate; spec.portcullis.clientAddresses holds for these connections, too";
            findings.problem_with_hint(
                path,
                "excludes transport: TLSPassthrough, which would let in whom it keeps out",
                hint.to_owned(),
            );
        }
    }
    if let Some(profile) = profile.filter(|_| !gates.deny_all_requests) {
        let message = format!(
            "{profile} closes all connections: its policies and limits cannot hold for connections that are passed on"
        );
        let path = "metadata.annotations[portcullis.dev/profile]";
        let hint = "portcullis thaw, or removing the annotation, ends it; TLSTerminate lets in what the profile does";
        findings.warn(Problem::coded(ProblemCode::Caution, path, message).hint(hint));
    }
    let discovers_as_gateway = raw.spec.portcullis.discovery.as_ref().is_some_and(|one| one.kubernetes_service);
    if discovers_as_gateway && !has_credential(&raw.spec) {
        let message = "needs the gateway's credential, by which the servers' EndpointSlice is read: set certData with keyData, or \
                       bearerToken, in spec.clientConfig";
        findings.problem("spec.portcullis.discovery.kubernetesService", message);
    }
    let is_gated = gates.close_connections || gates.tracing == Some(true);
    let gates = ("metadata.annotations[proxy.kubegateway.io/feature-gates]", is_gated);
    let credentials = credentials(&raw.spec).into_iter().filter(|_| !discovers_as_gateway).chain([gates]);
    for (path, is_set) in credentials.chain(for_judging(&raw.spec)).chain(ours_for_judging(&raw.spec.portcullis)) {
        if is_set {
            let message = "has no effect: connections are passed on, not judged";
            findings.warn(Problem::coded(ProblemCode::NoEffect, path, message));
        }
    }
}

/// The path of a field, and whether the object has it.
type FieldInUse = (&'static str, bool);

/// Fields that keep users or requests out.
fn keeps_out(spec: &UpstreamClusterSpec) -> [FieldInUse; 6] {
    let (access, protected) = (&spec.portcullis.access, &spec.portcullis.protected_identities);
    let denies = spec.dispatch_policies.iter().any(|policy| policy.denies() && !policy.is_shadow());
    let refuses_strangers = spec.portcullis.allow_anonymous == Some(false);
    let needs_certificate = spec.portcullis.client_certificate_verification == "Handshake";
    [
        ("spec.portcullis.allowAnonymous", refuses_strangers),
        ("spec.portcullis.clientCertificateVerification", needs_certificate),
        ("spec.flowControl.flowControlSchemas", limits_to_nothing(spec)),
        ("spec.portcullis.access", !(access.deny.is_empty() && access.allow.is_empty())),
        ("spec.portcullis.protectedIdentities", !(protected.users.is_empty() && protected.groups.is_empty())),
        ("spec.dispatchPolicies", denies),
    ]
}

/// Whether a policy that decides has a limit that refuses each of its requests.
fn limits_to_nothing(spec: &UpstreamClusterSpec) -> bool {
    let is_used = |name: &str| {
        let mut deciding = spec.dispatch_policies.iter().filter(|policy| !policy.is_shadow());
        deciding.any(|policy| policy.flow_control_schema_name == name)
    };
    let mut schemas = spec.flow_control.flow_control_schemas.iter();
    schemas.any(|one| one.max_requests_inflight.as_ref().is_some_and(|limit| limit.max == 0) && is_used(&one.name))
}

fn has_credential(spec: &UpstreamClusterSpec) -> bool {
    !(spec.client_config.cert_data.is_empty() && spec.client_config.bearer_token.is_empty())
}

fn credentials(spec: &UpstreamClusterSpec) -> [FieldInUse; 4] {
    let client = &spec.client_config;
    // A discovered server is one by a certificate of this CA.
    let verifies_discovered = spec.portcullis.discovery.is_some();
    [
        ("spec.clientConfig.insecure", client.insecure),
        ("spec.clientConfig.caData", !client.ca_data.is_empty() && !verifies_discovered),
        ("spec.clientConfig.certData", !client.cert_data.is_empty()),
        ("spec.clientConfig.bearerToken", !client.bearer_token.is_empty()),
    ]
}

fn for_judging(spec: &UpstreamClusterSpec) -> [FieldInUse; 4] {
    let serving = &spec.secure_serving;
    [
        ("spec.secureServing.certData", !serving.cert_data.is_empty()),
        ("spec.secureServing.clientCAData", !serving.client_ca_data.is_empty()),
        ("spec.flowControl", !spec.flow_control.flow_control_schemas.is_empty()),
        ("spec.dispatchPolicies", !spec.dispatch_policies.is_empty()),
    ]
}

fn ours_for_judging(ours: &PortcullisSpec) -> [FieldInUse; 19] {
    let (cache, tokens) = (&ours.credential_cache, &ours.tokens);
    let lifetimes = [&cache.token_ttl, &cache.rejected_token_ttl, &cache.authorized_ttl, &cache.unauthorized_ttl];
    let has_tokens = !(tokens.audiences.is_empty() && tokens.issuers.is_empty()) || tokens.check_revocation.is_some();
    let has_header = ours.request_header.token_review.is_some() || ours.request_header.user.is_some();
    [
        ("spec.portcullis.requestTimeout", ours.request_timeout.is_some()),
        ("spec.portcullis.drainPeriod", ours.drain_period.is_some()),
        ("spec.portcullis.maxSessionDuration", ours.max_session_duration.is_some()),
        ("spec.portcullis.extraAuthorities", !ours.extra_authorities.is_empty()),
        ("spec.portcullis.allowAnonymous", ours.allow_anonymous.is_some()),
        ("spec.portcullis.clientCertificateVerification", !ours.client_certificate_verification.is_empty()),
        ("spec.portcullis.upstreamIdentity", !ours.upstream_identity.is_empty()),
        ("spec.portcullis.requestHeader", has_header),
        ("spec.portcullis.credentialCache", lifetimes.iter().any(|one| one.is_some())),
        ("spec.portcullis.tokens", has_tokens),
        ("spec.portcullis.forwardedExtras", !ours.forwarded_extras.is_empty()),
        ("spec.portcullis.auditAttribution", ours.audit_attribution),
        ("spec.portcullis.constrainedImpersonation", ours.constrained_impersonation),
        ("spec.portcullis.fairQueues", !ours.fair_queues.is_empty()),
        ("spec.portcullis.profiles", !ours.profiles.is_empty()),
        ("spec.portcullis.operatorGroups", !ours.operator_groups.is_empty()),
        ("spec.portcullis.shadow", ours.shadow.is_set()),
        ("spec.portcullis.logging.slow", ours.logging.slow.is_some()),
        ("spec.portcullis.logging.failed", ours.logging.failed.is_some()),
    ]
}

#[cfg(test)]
mod tests;

//! From objects to Envoy's resources.
//!
//! [`translate`] is pure: equal input gives equal bytes, so that a resource's content hash is its version. Every object
//! gets a [`Diagnosis`]; a bad one is left out and never stops the others. Whatever a resource refers to by name (a
//! secret, a route configuration, an assignment) is among the same [`Translation`]'s resources.

mod backend;
mod checked_cluster;
mod checked_documents;
mod cluster;
mod diagnosis;
mod document_parts;
mod explain_input;
mod filter_build;
mod gateway;
mod gateway_configs;
mod gateway_secrets;
mod generation;
mod last_translation;
mod listener;
mod names;
mod ownership;
mod policy;
mod proto;
mod removed_cluster;
mod resource;
mod route;
mod secrets;
mod settings;
mod status_body;
mod translator;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use portcullis_api::{
    CLUSTER_KIND, ClientVerification, Cluster, Problem, ProblemCode, Settings, Transport, check_cluster,
    cluster_mistakes, parse_cluster,
};
use serde_json::Value;

pub use backend::{NO_REQUESTS, ResolvedUpstream, ServicePort, ServiceServers, owner_at_gateways, passage_diagnosis};
pub use checked_cluster::ClientCaCheck;
pub use diagnosis::{Diagnosis, Reason, Version};
pub use document_parts::{PartedTranslation, Parts};
pub use explain_input::{ExplainInput, explain_gateway, explain_input, explain_upstream, lost_names};
pub use filter_build::{FilterBuild, UnknownBuild};
pub use gateway::{GatewayInput, GatewayTranslator, RefusedClusters, translate_gateways};
pub use gateway_secrets::GatewaySecrets;
pub use generation::{cluster_word, object_word};
pub use listener::{gateway_listener_port, only_cluster};
pub use names::{ResourceNames, place_of_routes};
pub use removed_cluster::tombstone_routes;
pub use resource::{Part, Resource, ResourceGroup, type_urls};
pub use route::misdirected_routes;
pub use secrets::holds_key;
pub use settings::{SettingsChoice, choose_settings, instance_settings, with_fields_of_all};
pub use status_body::UNKNOWN_NAME;
pub use translator::Translator;

use crate::listener::Chain;
use crate::names::parts;
use crate::route::RoutePlace;

/// The input of a translation.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The gateway's settings.
    pub settings: &'a Settings,
    /// The `UpstreamCluster` documents, as they were read. Their order decides only between two objects that are equal
    /// in every other respect.
    pub clusters: &'a [Arc<Value>],
    /// The build of the filter that its Envoys run.
    pub filter: FilterBuild,
}

/// The output of a translation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Envoy's resources, in groups: those of each object that is served, in the documents' order, and those of the gateway itself.
    /// No two have the same type and name.
    pub groups: Vec<ResourceGroup>,
    /// One per document, in the documents' order. [`Translator`] returns the same allocation for what did not change.
    pub diagnoses: Vec<Arc<Diagnosis>>,
}

impl Translation {
    /// All resources, sorted by type and name.
    pub fn resources(&self) -> Vec<&Arc<Resource>> {
        let mut all: Vec<_> = self.groups.iter().flat_map(|group| group.iter()).collect();
        all.sort();
        all
    }
}

/// Translates all objects. For repeated translations there is [`Translator`].
pub fn translate(input: &Input<'_>) -> Translation {
    Translator::default().translate(input)
}

fn check(
    document: &Value,
    name: &str,
    settings: &Settings,
    client_ca: Option<ClientCaCheck>,
) -> (Option<Cluster>, Diagnosis) {
    let Ok(raw) = parse_cluster(document) else {
        return (None, Diagnosis::invalid(name, cluster_mistakes(document), Vec::new()));
    };
    let checked = check_cluster(&raw, settings.allow_loopback_upstreams);
    match checked.outcome {
        Err(problems) => (None, Diagnosis::invalid(name, problems, checked.warnings)),
        Ok(cluster) => {
            let problems = forbidden(&cluster, settings, client_ca);
            let cluster = with_default_client_ca(cluster, settings);
            let mut warnings = checked.warnings;
            if cluster.transport == Transport::Passthrough {
                warnings.extend(passed_by(settings));
            } else {
                warnings.extend(ineffective_fields(&cluster, settings));
                warnings.extend(unverified(&cluster));
            }
            if problems.is_empty() {
                (Some(cluster), Diagnosis::accepted(CLUSTER_KIND, name, warnings))
            } else {
                (None, Diagnosis::invalid(name, problems, warnings))
            }
        }
    }
}

/// Problems of an object that the settings or the filter do not allow.
fn forbidden(cluster: &Cluster, settings: &Settings, client_ca: Option<ClientCaCheck>) -> Vec<Problem> {
    let mut problems: Vec<_> = forbidden_addresses(cluster, settings).collect();
    if cluster.transport == Transport::Passthrough {
        // One that is frozen closes all connections: refused, the version before would go on, open.
        problems.extend(lifted(settings).filter(|_| !cluster.gates.deny_all_requests));
        return problems;
    }
    if cluster.serving.is_none() && settings.default_certificate.is_none() {
        let message = "is required, because the GatewaySettings have no defaultCertificate";
        problems.push(Problem::coded(ProblemCode::NoServingCertificate, "spec.secureServing.certData", message));
    }
    if let (Some(check), Some(pem)) = (client_ca, &cluster.client_ca)
        && let Err(message) = check(&policy::text(pem))
    {
        problems.push(Problem::new("spec.secureServing.clientCAData", message));
    }
    let has_client_ca = cluster.client_ca.is_some() || settings.default_client_ca.is_some();
    if cluster.client_verification == ClientVerification::Handshake && !has_client_ca {
        let message = "needs spec.secureServing.clientCAData, or defaultClientCA in the GatewaySettings: without them no \
                       certificate verifies";
        let path = "spec.portcullis.clientCertificateVerification";
        problems.push(Problem::coded(ProblemCode::NoClientCa, path, message));
    }
    problems
}

fn forbidden_addresses(cluster: &Cluster, settings: &Settings) -> impl Iterator<Item = Problem> {
    let is_allowed = |ip: &std::net::IpAddr| settings.virtual_ips.iter().any(|range| range.contains(*ip));
    cluster.virtual_ips.iter().filter(move |ip| !is_allowed(ip)).map(|ip| {
        let message = format!("{ip} is not in listener.virtualIPs of the GatewaySettings");
        Problem::coded(ProblemCode::VirtualIpNotAllowed, "spec.portcullis.virtualIPs", message)
    })
}

/// The cluster with the gateway's client CA if it has none of its own. The filter's configuration, the handshake and the keys
/// of caches are all made of what this returns.
fn with_default_client_ca(mut cluster: Cluster, settings: &Settings) -> Cluster {
    if cluster.client_ca.is_none() {
        cluster.client_ca.clone_from(&settings.default_client_ca);
    }
    cluster
}

/// A warning about a cluster that verifies no client certificate: users without another credential are anonymous, and do not
/// notice. No warning if they do: anonymous requests are refused with 401, or a CA is required for the handshake.
fn unverified(cluster: &Cluster) -> Option<Problem> {
    let hides_it = cluster.allow_anonymous && cluster.client_verification == ClientVerification::Request;
    (cluster.client_ca.is_none() && hides_it).then(|| {
        let message = "is not set, and the GatewaySettings have no defaultClientCA: clients with a certificate and no token \
                       are anonymous; KubeGateway verifies them by its --client-ca-file";
        let problem = Problem::coded(ProblemCode::DiffersFromKubegateway, "spec.secureServing.clientCAData", message);
        problem.hint("set one of the two; or portcullis.allowAnonymous: false, if clients have tokens only")
    })
}

/// The problem of an object that would lift the access lists of the settings: their author, and not the object's, decides about
/// those.
fn lifted(settings: &Settings) -> Option<Problem> {
    settings.access.as_ref().map(|_| {
        let message = "TLSPassthrough is excluded by access in the GatewaySettings, which it would lift";
        let hint = "remove the lists from the GatewaySettings, or go back to TLSTerminate";
        Problem::new("spec.portcullis.transport", message).hint(hint)
    })
}

/// A warning about a list of the settings that does not hold for connections which are passed on.
fn passed_by(settings: &Settings) -> Option<Problem> {
    settings.protected.as_ref().map(|_| {
        let message = "protectedIdentities of the GatewaySettings does not hold for connections that are passed on";
        Problem::coded(ProblemCode::Caution, "spec.portcullis.transport", message)
    })
}

/// Fields of an object that have no effect because of the settings, though the object is served.
fn ineffective_fields(cluster: &Cluster, settings: &Settings) -> impl Iterator<Item = Problem> {
    let traced = cluster.gates.tracing == Some(true) && settings.tracing.is_none();
    let gate = traced.then(|| {
        let path = "metadata.annotations[proxy.kubegateway.io/feature-gates]";
        Problem::coded(ProblemCode::NoEffect, path, "Tracing has no effect: the GatewaySettings have no tracing")
    });
    let review = policy::review_is_forced(cluster, settings).then(|| {
        let message =
            "has no effect: identities are protected, or an access list names users, so every token is reviewed";
        Problem::coded(ProblemCode::NoEffect, "spec.portcullis.requestHeader.tokenReview", message).hint(
            "remove it, and let requestHeader.user create TokenReviews (portcullis rbac); without that tokens get 503",
        )
    });
    gate.into_iter().chain(review)
}

/// Makes a cluster the owner of the resources from a position on.
fn own(resources: &mut [Resource], first: usize, cluster: &Cluster) {
    let owner: Arc<str> = cluster.name.as_str().into();
    resources.iter_mut().skip(first).for_each(|resource| resource.owner = Some(Arc::clone(&owner)));
}

/// As [`emit`], of a cluster whose connections are passed on: no secret and no routes.
fn emit_passthrough(
    cluster: &Cluster,
    names: &ResourceNames,
    input: &Input<'_>,
    resources: &mut Vec<Resource>,
) -> Chain {
    let first = resources.len();
    cluster::emit_tcp_pool(cluster, names, input.settings, resources);
    own(resources, first, cluster);
    Chain::serving(cluster, names, input.settings, input.filter)
}

/// Everything of one cluster but its filter chain, which the listener collects, and the edition of its shadow. [`Translator`] calls
/// this for each accepted document.
fn emit(cluster: &Cluster, input: &Input<'_>, resources: &mut Vec<Resource>) -> (Chain, Option<String>) {
    let settings = input.settings;
    let names = ResourceNames::of(cluster, settings);
    if cluster.transport == Transport::Passthrough {
        return (emit_passthrough(cluster, &names, input, resources), None);
    }
    let config = policy::cluster_config(cluster, &names, settings);
    let groups = names::groups(cluster);
    let first = resources.len();
    secrets::emit_secrets(cluster, &names, settings, resources);
    for group in &groups {
        cluster::emit_clusters(cluster, group, &names, settings, resources);
    }
    let place = names.part(parts::ROUTES);
    resources.push(route::routes(RoutePlace::of_all(&place), cluster, &groups, &names, &config, input.filter));
    own(resources, first, cluster);
    let shadow = config.shadow.map(|shadow| shadow.generation);
    (Chain::serving(cluster, &names, settings, input.filter), shadow)
}

use std::sync::Arc;

use portcullis_api::{CLUSTER_KIND, ClaimKind, Claims, Problem, Transport, claims_of};
use serde_json::Value;

use crate::diagnosis::{Diagnosis, Reason};
use crate::listener::{Chain, CommonBytes};
use crate::ownership::LostName;
use crate::resource::ResourceGroup;
use crate::{Input, check, emit};

/// Why the filter would refuse a client CA bundle (PEM), if it would.
pub type ClientCaCheck = fn(&str) -> Result<(), String>;

/// The result of a document, without the other documents.
pub(crate) struct CheckedCluster {
    pub(crate) claims: Arc<Claims>,
    /// The diagnosis if it gets every name that it claims.
    pub(crate) diagnosis: Arc<Diagnosis>,
    /// `None` if it is refused.
    pub(crate) emitted: Option<EmittedResources>,
    /// In the place of a chain if it is not served.
    pub(crate) reserved: Arc<Chain>,
}

/// Everything of an object that is served.
pub(crate) struct EmittedResources {
    pub(crate) resources: ResourceGroup,
    pub(crate) chain: Arc<Chain>,
    /// The edition of the shadow, if there is one.
    shadow: Option<String>,
    /// Whether clients meet the default certificate.
    pub(crate) is_by_default: bool,
}

impl CheckedCluster {
    /// The part of it that is served, and its diagnosis: with the problems of names that another one owns.
    pub(crate) fn served_part(&self, lost: &[LostName]) -> (Option<&EmittedResources>, Arc<Diagnosis>) {
        if lost.is_empty() {
            return (self.emitted.as_ref(), Arc::clone(&self.diagnosis));
        }
        let mut diagnosis = self.diagnosis.as_ref().clone();
        diagnosis.names.retain(|name| lost.iter().all(|lost| lost.name != *name));
        let problems: Vec<_> = lost.iter().map(|lost| lost.problem.clone()).collect();
        let emitted = if self.emitted.is_none() {
            problems.into_iter().for_each(|problem| diagnosis.add_problem(problem));
            None
        } else if lost.iter().any(|lost| lost.kind == ClaimKind::Name) {
            diagnosis.refuse(Reason::Conflicted, problems);
            diagnosis.shadow = None;
            None
        } else {
            diagnosis.accept_in_part(problems);
            self.emitted.as_ref()
        };
        (emitted, Arc::new(diagnosis))
    }

    /// Takes over what another version of the object has as well: an edit of policies leaves the listener as it is, and the names.
    pub(crate) fn keep_allocations(&mut self, before: &Self) {
        if self.claims == before.claims {
            self.claims = Arc::clone(&before.claims);
        }
        let keep = |chain: &mut Arc<Chain>, before: &Arc<Chain>| {
            if **chain == **before {
                *chain = Arc::clone(before);
            }
        };
        keep(&mut self.reserved, &before.reserved);
        if let (Some(emitted), Some(before)) = (&mut self.emitted, &before.emitted) {
            keep(&mut emitted.chain, &before.chain);
        }
    }
}

/// The same of an object that no Envoy serves with the default certificate.
pub(crate) fn without_certificate(diagnosis: &Diagnosis) -> Arc<Diagnosis> {
    let mut diagnosis = diagnosis.clone();
    let message = "is required of an object that belongs to an Instance, whose Envoys have no defaultCertificate";
    let problem = Problem::new("spec.secureServing.certData", message);
    diagnosis.refuse(Reason::Invalid, vec![problem]);
    diagnosis.shadow = None;
    Arc::new(diagnosis)
}

/// The names of a document that is translated elsewhere, without those that another object owns.
pub(crate) fn names_alone(document: &Value, lost: &[String]) -> CheckedCluster {
    let claims = Arc::new(claims_of(document));
    let diagnosis = Arc::new(Diagnosis::accepted(CLUSTER_KIND, &claims.name, Vec::new()));
    let reserved = Arc::new(Chain::reserved(&claims, lost));
    CheckedCluster { claims, diagnosis, emitted: None, reserved }
}

/// Checks a document and emits its resources, without the names that another object owns.
pub(crate) fn translate_object(
    document: &Value,
    lost: &[String],
    input: &Input<'_>,
    client_ca: Option<ClientCaCheck>,
    common: &mut CommonBytes,
) -> CheckedCluster {
    let claims = Arc::new(claims_of(document));
    let (cluster, mut diagnosis) = check(document, &claims.name, input.settings, client_ca);
    let emitted = cluster.map(|mut cluster| {
        cluster.server_names.retain(|name| !lost.contains(name));
        cluster.virtual_ips.retain(|ip| !lost.contains(&ip.to_string()));
        let mut resources = Vec::new();
        let (mut chain, shadow) = emit(&cluster, input, &mut resources);
        chain.share(common);
        let resources = resources.into_iter().map(Arc::new).collect();
        let is_by_default = cluster.serving.is_none() && cluster.transport == Transport::Terminate;
        EmittedResources { resources, chain: Arc::new(chain), shadow, is_by_default }
    });
    diagnosis.names = claims.names.iter().map(|(name, _)| name.clone()).collect();
    diagnosis.shadow = emitted.as_ref().and_then(|emitted| emitted.shadow.clone());
    let diagnosis = Arc::new(diagnosis);
    let reserved = Arc::new(Chain::reserved(&claims, lost));
    CheckedCluster { claims, diagnosis, emitted, reserved }
}

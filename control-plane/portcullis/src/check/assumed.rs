//! Everything that is not among the objects and taken for being there: files that are referred to, and settings.

use portcullis_api::{Problem, ProblemCode, ReferencedData, without_references};
use portcullis_sources::ObjectSet;
use portcullis_translate::{Diagnosis, Reason};
use serde_json::Value;

use super::instances::CheckedInstances;

/// The assumptions about clusters.
pub(super) struct Assumptions<'a> {
    pub(super) objects: &'a ObjectSet,
    pub(super) instances: &'a CheckedInstances,
    /// Whether a default certificate of all gateways is among what the settings refer to.
    pub(super) believes_certificate: bool,
}

impl Assumptions<'_> {
    /// The diagnosis of a cluster without what may be right elsewhere.
    pub(super) fn apply(&self, diagnosis: Diagnosis) -> Diagnosis {
        let is_unknown = self.objects.referenced_data == ReferencedData::None;
        let diagnosis = if is_unknown { unknown(diagnosis) } else { diagnosis };
        let believes = self.believes_certificate || self.instances.believes_certificate(&diagnosis.name);
        let diagnosis = if believes { believe(diagnosis) } else { diagnosis };
        if self.objects.settings.is_empty() { forgive(diagnosis) } else { diagnosis }
    }
}

/// The settings without what they refer to where the files are not here, and whether a default certificate is among that.
pub(super) fn believed(objects: &ObjectSet) -> (Vec<Value>, bool) {
    let mut documents = objects.settings.clone();
    let mut is_one = false;
    for document in documents.iter_mut().filter(|_| objects.referenced_data == ReferencedData::None) {
        let (other, had_certificate) = without_references(document);
        *document = other;
        is_one |= had_certificate;
    }
    (documents, is_one)
}

/// There is a default certificate.
fn believe(mut diagnosis: Diagnosis) -> Diagnosis {
    diagnosis.problems.retain(|problem| problem.code != ProblemCode::NoServingCertificate);
    if diagnosis.problems.is_empty() {
        diagnosis.reason = Reason::Accepted;
    }
    diagnosis
}

/// The diagnosis without problems that depend on the contents of Secrets and files, which are unknown here.
fn unknown(mut diagnosis: Diagnosis) -> Diagnosis {
    diagnosis.problems.retain(|problem| problem.code != ProblemCode::Unresolved);
    if diagnosis.problems.is_empty() {
        diagnosis.reason = Reason::Accepted;
    }
    diagnosis
}

/// Settings that are not here may have the default certificate and client CA, and allow virtual IPs.
fn forgive(mut diagnosis: Diagnosis) -> Diagnosis {
    let of_settings = |problem: &Problem| match problem.code {
        ProblemCode::NoServingCertificate => Some("a defaultCertificate"),
        ProblemCode::NoClientCa => Some("a defaultClientCA"),
        ProblemCode::VirtualIpNotAllowed => Some("listener.virtualIPs that allow it"),
        _ => None,
    };
    let (missing, problems): (Vec<_>, Vec<_>) =
        diagnosis.problems.into_iter().partition(|problem| of_settings(problem).is_some());
    diagnosis.problems = problems;
    for caution in &mut diagnosis.cautions {
        if caution.code == ProblemCode::DiffersFromKubegateway && caution.path == "spec.secureServing.clientCAData" {
            caution.message = "is not set: unless the GatewaySettings, which are not among the objects, have a \
                               defaultClientCA, clients with a certificate and no token are anonymous"
                .to_owned();
        }
    }
    diagnosis.cautions.extend(missing.into_iter().map(|mut problem| {
        let field = of_settings(&problem).unwrap_or_default();
        problem.message = format!("needs {field} in the GatewaySettings, which are not among the objects");
        problem
    }));
    if diagnosis.problems.is_empty() {
        diagnosis.reason = Reason::Accepted;
    }
    diagnosis
}

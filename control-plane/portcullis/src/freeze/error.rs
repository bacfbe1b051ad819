use portcullis_api::Problem;
use portcullis_sources::ProfilesFileError;

use crate::onboard::OnboardError;
use crate::read_manifests::ManifestError;

/// The step that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FreezeError {
    /// The store of objects.
    #[error(transparent)]
    Store(#[from] OnboardError),
    /// The files of objects.
    #[error(transparent)]
    Manifests(#[from] ManifestError),
    /// The file of profiles.
    #[error(transparent)]
    ProfilesFile(#[from] ProfilesFileError),
    /// The operator has to name another object.
    #[error("there is no UpstreamCluster {0}")]
    Missing(String),
    /// The operator has to name another profile, or the object.
    #[error("{0} is not a built-in profile (frozen, heartbeats, trickle): name the object's files by -f")]
    NotBuiltIn(String),
    /// The object's author has to act: gateways would go on with its last version, and its profile would have no effect.
    #[error("UpstreamCluster {name} would be refused with this profile: {}", joined(.problems))]
    Refused { name: String, problems: Vec<Problem> },
}

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

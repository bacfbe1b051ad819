use super::compare::Findings;
use super::endings::Ending;
use super::fields::ChangedField;

/// The differences of a cluster.
#[derive(Debug)]
pub(super) struct ClusterDiff {
    /// Its name; of one behind a Gateway, a listener or a route with policies, the way there, too.
    pub(super) name: String,
    /// The host name of its examples.
    pub(super) host: String,
    pub(super) findings: Findings,
    pub(super) fields: Vec<ChangedField>,
    /// References whose content is not at hand.
    pub(super) unknown_content: Vec<&'static str>,
    /// Entries of access lists that end.
    pub(super) endings: Vec<Ending>,
}

impl ClusterDiff {
    /// A cluster behind a door. Its fields are listed under its own name.
    pub(super) fn at_door(name: String, host: String, findings: Findings) -> Self {
        Self { name, host, findings, fields: Vec::new(), unknown_content: Vec::new(), endings: Vec::new() }
    }
}

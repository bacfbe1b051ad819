use std::fmt;

use portcullis_api::{CLUSTER_KIND, Problem};
use serde::Serialize;

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The object's kind.
    pub kind: String,
    /// The object's name; of a file that cannot be read, the file's.
    pub name: String,
    /// Whether it is served.
    pub accepted: bool,
    /// Why, in one word.
    pub reason: Reason,
    /// Every problem with its field, separated by `; `. It holds no secret.
    pub message: String,
    /// What is accepted but does not do what its writer may expect.
    pub warnings: Vec<String>,
}

/// Why an object is accepted or not, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Reason {
    /// It is served.
    Accepted,
    /// It has a problem; an edit mends it.
    Invalid,
    /// Another object owns a name that it claims.
    Conflicted,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Accepted => "Accepted",
            Reason::Invalid => "Invalid",
            Reason::Conflicted => "Conflicted",
        })
    }
}

impl Diagnosis {
    /// An `UpstreamCluster` that is served.
    pub(crate) fn accepted(name: &str, warnings: Vec<Problem>) -> Self {
        Self {
            kind: CLUSTER_KIND.to_owned(),
            name: name.to_owned(),
            accepted: true,
            reason: Reason::Accepted,
            message: String::new(),
            warnings: warnings.iter().map(ToString::to_string).collect(),
        }
    }

    /// An `UpstreamCluster` that is not served.
    pub(crate) fn invalid(name: &str, problems: &[Problem], warnings: Vec<Problem>) -> Self {
        let mut diagnosis = Self::accepted(name, warnings);
        diagnosis.refuse(Reason::Invalid, join(problems));
        diagnosis
    }

    pub(crate) fn refuse(&mut self, reason: Reason, message: String) {
        self.accepted = false;
        self.reason = reason;
        self.message = message;
    }
}

pub(crate) fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

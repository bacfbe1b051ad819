use std::fmt;

use portcullis_api::status::{Acceptance, FilledDefault, Served};
use portcullis_api::{CLUSTER_KIND, Problem};
use serde::Serialize;

/// The outcome of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The object's kind.
    pub kind: String,
    /// The object's name; of a file that cannot be read, the file's.
    pub name: String,
    /// The place of the object, as `file:line`. Set by the reader of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Whether it is served.
    pub accepted: bool,
    /// Why, in one word.
    pub reason: Reason,
    /// Every problem with its field, separated by `; `. It holds no secret.
    pub message: String,
    /// Accepted fields that may not do what their author expects.
    pub warnings: Vec<String>,
    /// The problems in `message`, one by one.
    #[serde(skip)]
    pub problems: Vec<Problem>,
    /// The problems in `warnings`, in the same order.
    #[serde(skip)]
    pub cautions: Vec<Problem>,
    /// The host names and virtual IPs that the object owns, whether it is served or not. Written into its `status.names`,
    /// they stay its own.
    #[serde(skip)]
    pub names: Vec<String>,
    /// The edition of the shadow that gateways have of the object, if it is served with one.
    #[serde(skip)]
    pub shadow: Option<String>,
    /// The version of the object that it is about. Set by the reader of the source.
    #[serde(skip)]
    pub version: Version,
}

/// Which version of an object a [`Diagnosis`] is about, and which one is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid`; files have none.
    pub uid: Option<String>,
    /// `metadata.generation`; files have none.
    pub generation: Option<i64>,
    /// The version that is served.
    pub served: Served,
    /// The defaults that were filled into the version that is in use; of `GatewaySettings` only.
    pub defaults: Vec<FilledDefault>,
}

/// Why an object is accepted or not, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Reason {
    /// It is served.
    Accepted,
    /// Invalid; fixed by editing the object.
    Invalid,
    /// Another object owns a name that it claims. It is served under its other names, unless the lost one is its own
    /// (`metadata.name`).
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
    /// The diagnosis, as the conditions of the object have it.
    pub fn acceptance<'a>(&'a self, reason: &'a str) -> Acceptance<'a> {
        Acceptance {
            accepted: self.accepted,
            reason,
            message: &self.message,
            warnings: &self.warnings,
            names: &self.names,
        }
    }

    /// Every problem in `message` by its field and subject, for readers who may not read the object.
    pub(crate) fn outline(&self) -> String {
        self.problems.iter().map(Problem::outline).collect::<Vec<_>>().join("; ")
    }

    /// An object that is served.
    pub(crate) fn accepted(kind: &str, name: &str, warnings: Vec<Problem>) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            at: None,
            accepted: true,
            reason: Reason::Accepted,
            message: String::new(),
            warnings: warnings.iter().map(ToString::to_string).collect(),
            problems: Vec::new(),
            cautions: warnings,
            names: Vec::new(),
            shadow: None,
            version: Version::default(),
        }
    }

    /// An `UpstreamCluster` that is not served.
    pub(crate) fn invalid(name: &str, problems: Vec<Problem>, warnings: Vec<Problem>) -> Self {
        let mut diagnosis = Self::accepted(CLUSTER_KIND, name, warnings);
        diagnosis.refuse(Reason::Invalid, problems);
        diagnosis
    }

    /// Replaces problems and warnings by better ones, of a caller that knows more: the origin of the data, or the reason.
    pub fn map_problems(&mut self, mapped: impl Fn(&Problem) -> Option<Problem>) {
        for problem in &mut self.problems {
            let Some(other) = mapped(problem) else { continue };
            self.message = self.message.replacen(&problem.to_string(), &other.to_string(), 1);
            *problem = other;
        }
        for (caution, warning) in self.cautions.iter_mut().zip(&mut self.warnings) {
            let Some(other) = mapped(caution) else { continue };
            *warning = other.to_string();
            *caution = other;
        }
    }

    pub(crate) fn refuse(&mut self, reason: Reason, problems: Vec<Problem>) {
        self.accepted = false;
        self.reason = reason;
        self.problems = problems;
        self.rebuild_message();
    }

    /// It is served, but not under every name that it claims.
    pub(crate) fn accept_in_part(&mut self, problems: Vec<Problem>) {
        self.refuse(Reason::Conflicted, problems);
        self.accepted = true;
    }

    /// One more reason why the object is not served.
    pub(crate) fn add_problem(&mut self, problem: Problem) {
        self.problems.push(problem);
        self.rebuild_message();
    }

    fn rebuild_message(&mut self) {
        self.message = self.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    }
}

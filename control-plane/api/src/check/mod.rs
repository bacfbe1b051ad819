//! The way from a raw object to its checked form.

mod authority;
mod certificates;
mod client;
mod cluster;
mod credentials;
mod endpoint;
mod flow_control;
mod gates;
mod logging;
mod policies;
mod servers;
mod settings;

pub(crate) use authority::is_served_name;
pub use certificates::KeyPair;
pub use client::{PeerName, Trust};
pub use cluster::{Cluster, check_cluster};
pub use credentials::CredentialCache;
pub use endpoint::{Endpoint, Host};
pub use flow_control::Schema;
pub use gates::Gates;
pub use logging::LogMode;
pub use policies::Policy;
pub use servers::Server;
pub use settings::{AccessLog, Limits, Settings, check_settings};

use crate::Problem;

/// The outcome of a check: the checked form or every problem, and warnings in either case.
#[derive(Clone, Debug)]
pub struct Checked<T> {
    /// The checked form; the problems if the object has to be refused.
    pub outcome: Result<T, Vec<Problem>>,
    /// What is accepted but does not do what its writer may expect.
    pub warnings: Vec<Problem>,
}

/// Collects what is found on the way through an object.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Findings {
    fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    fn warning(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(Problem::new(path, message));
    }

    /// Ends the check. `value` is only taken if nothing is wrong.
    fn finish<T>(self, value: Option<T>) -> Checked<T> {
        let outcome = match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => Err(self.problems),
        };
        Checked { outcome, warnings: self.warnings }
    }
}

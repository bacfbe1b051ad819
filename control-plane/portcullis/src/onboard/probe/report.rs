use crate::display_text::one_line;
use crate::table::aligned;

/// The checks, in their order.
pub(super) const CHECKS: [&str; 8] =
    ["reach", "certificate", "credential", "health", "rights", "token review", "forwarding", "streaming"];

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::onboard) enum CheckOutcome {
    /// It works; a detail, which may be empty.
    Good(String),
    /// It does not: the reason, and who has to do what.
    Failed { reason: String, hint: String },
    /// It was not tried, and why.
    Skipped(String),
}

/// A reason, and who has to do what.
#[derive(Clone, Debug)]
pub(in crate::onboard) struct CheckFailure {
    pub(super) reason: String,
    pub(super) hint: String,
}

impl CheckFailure {
    pub(super) fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: hint.into() }
    }
}

impl std::fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl From<CheckFailure> for CheckOutcome {
    fn from(CheckFailure { reason, hint }: CheckFailure) -> Self {
        CheckOutcome::Failed { reason, hint }
    }
}

impl From<Result<String, CheckFailure>> for CheckOutcome {
    fn from(outcome: Result<String, CheckFailure>) -> Self {
        outcome.map_or_else(Into::into, CheckOutcome::Good)
    }
}

impl CheckOutcome {
    pub(super) fn is_good(&self) -> bool {
        matches!(self, CheckOutcome::Good(_))
    }
}

/// The outcomes at one server.
#[derive(Clone, Debug)]
pub(in crate::onboard) struct ServerReport {
    endpoint: String,
    checks: Vec<(&'static str, CheckOutcome)>,
}

/// The outcomes at all servers of an UpstreamCluster.
#[derive(Clone, Debug)]
pub(in crate::onboard) struct ProbeReport {
    pub(super) name: String,
    pub(super) servers: Vec<ServerReport>,
}

impl ServerReport {
    pub(super) fn new(endpoint: String) -> Self {
        Self { endpoint, checks: Vec::new() }
    }

    pub(super) fn add(&mut self, check: &'static str, outcome: CheckOutcome) {
        self.checks.push((check, outcome));
    }

    /// Adds a failure, or gives what was found. The detail of a good outcome is its text.
    pub(super) fn take<T: CheckValue>(&mut self, check: &'static str, found: Result<T, CheckFailure>) -> Option<T> {
        match found {
            Ok(value) => {
                if let Some(detail) = value.detail() {
                    self.add(check, CheckOutcome::Good(detail));
                }
                Some(value)
            }
            Err(failure) => {
                self.add(check, failure.into());
                None
            }
        }
    }

    /// Adds the checks that have no outcome yet.
    pub(super) fn fill(&mut self, all: &[&'static str]) {
        for check in all {
            if !self.checks.iter().any(|(name, _)| name == check) {
                self.add(check, CheckOutcome::Skipped("a check before it failed".to_owned()));
            }
        }
    }
}

/// Something that a check found.
pub(super) trait CheckValue {
    /// The detail of its line; `None` if another check has the line.
    fn detail(&self) -> Option<String>;
}

impl CheckValue for String {
    fn detail(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl ProbeReport {
    /// Whether no check failed, at any server.
    pub(in crate::onboard) fn is_good(&self) -> bool {
        let failed = |(_, outcome): &(_, CheckOutcome)| matches!(outcome, CheckOutcome::Failed { .. });
        !self.servers.is_empty() && !self.servers.iter().any(|server| server.checks.iter().any(failed))
    }

    /// A line for each check, and a hint below each that failed.
    pub(in crate::onboard) fn text(&self) -> String {
        let width = CHECKS.iter().map(|check| check.len()).max().unwrap_or_default();
        let mut text = String::new();
        for server in &self.servers {
            text.push_str(&format!("{} at {}:\n", one_line(&self.name), server.endpoint));
            let rows: Vec<Vec<String>> = server.checks.iter().map(|(check, outcome)| row(check, outcome)).collect();
            for (line, (_, outcome)) in aligned(&rows, &[]).lines().zip(&server.checks) {
                text.push_str(&format!("  {line}\n"));
                if let CheckOutcome::Failed { hint, .. } = outcome {
                    text.push_str(&format!("  {:width$}   hint: {}\n", "", one_line(hint)));
                }
            }
        }
        if self.servers.is_empty() {
            text.push_str(&format!("{}: no server takes requests\n", one_line(&self.name)));
        }
        text
    }
}

fn row(check: &str, outcome: &CheckOutcome) -> Vec<String> {
    let (word, detail) = match outcome {
        CheckOutcome::Good(detail) => ("ok", detail),
        CheckOutcome::Failed { reason, .. } => ("failed", reason),
        CheckOutcome::Skipped(reason) => ("not tried", reason),
    };
    vec![check.to_owned(), word.to_owned(), one_line(detail)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_a_line_for_each_check_and_a_hint_for_each_failure() {
        let mut server = ServerReport::new("10.0.0.1:6443".to_owned());
        server.add("reach", CheckOutcome::Good(String::new()));
        server.add("certificate", CheckFailure::new("the CA is\nunknown", "name another").into());
        server.fill(&CHECKS);
        let report = ProbeReport { name: "a.test".to_owned(), servers: vec![server] };
        let text = report.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "a.test at 10.0.0.1:6443:",
                "  reach          ok",
                "  certificate    failed      the CA is unknown",
                "                 hint: name another",
            ]
        );
        assert_eq!(lines.len(), 10, "{text}");
        assert!(lines[4..].iter().all(|line| line.contains("not tried")) && !report.is_good());
        let empty = ProbeReport { name: "a.test".to_owned(), servers: Vec::new() };
        assert!(!empty.is_good() && empty.text().contains("no server"));
    }
}

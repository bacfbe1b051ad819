use std::time::Duration;

use super::Findings;
use crate::bounds::MAX_PATH;
use crate::duration::parse_duration;
use crate::types::HealthCheckSpec;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// How it is found out whether a server is healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path of the check: visible ASCII, starts with `/`.
    pub path: String,
    /// The time between two checks.
    pub interval: Duration,
    /// How long a check may take.
    pub timeout: Duration,
    /// The number of good checks after which a server is healthy.
    pub healthy_threshold: u32,
    /// The number of bad checks after which a server is unhealthy.
    pub unhealthy_threshold: u32,
    /// Whether an unexpected status is a bad check like others, or makes a server unhealthy at once.
    pub counts_statuses: bool,
}

/// Which field, and whether its value will do.
struct HealthField<'a> {
    name: &'static str,
    findings: &'a mut Findings,
}

pub(super) fn check_health(raw: &HealthCheckSpec, findings: &mut Findings) -> HealthCheck {
    HealthCheck {
        path: HealthField::new("path", findings).path(raw.path.as_deref()),
        interval: HealthField::new("interval", findings).duration(raw.interval.as_deref()),
        timeout: HealthField::new("timeout", findings).duration(raw.timeout.as_deref()),
        healthy_threshold: HealthField::new("healthyThreshold", findings).threshold(raw.healthy_threshold, 1),
        unhealthy_threshold: HealthField::new("unhealthyThreshold", findings).threshold(raw.unhealthy_threshold, 1),
        counts_statuses: raw.unhealthy_threshold.is_some(),
    }
}

impl<'a> HealthField<'a> {
    fn new(name: &'static str, findings: &'a mut Findings) -> Self {
        HealthField { name, findings }
    }

    fn problem(&mut self, message: impl Into<String>) {
        self.findings.problem(format!("spec.portcullis.healthCheck.{}", self.name), message);
    }

    fn path(mut self, raw: Option<&str>) -> String {
        let path = raw.unwrap_or("/readyz");
        // Anything else would end the request's line, or never be sent.
        let is_sent = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if !path.starts_with('/') || path.len() > MAX_PATH || !path.bytes().all(is_sent) {
            self.problem(format!("must start with / and have up to {MAX_PATH} visible ASCII characters without #"));
        }
        path.to_owned()
    }

    fn duration(mut self, raw: Option<&str>) -> Duration {
        let default = Duration::from_secs(5);
        match raw.map(parse_duration) {
            None => default,
            Some(Ok(duration)) if (SHORTEST..=LONGEST).contains(&duration) => duration,
            Some(Ok(_)) => {
                self.problem("must be from 1s to 5m");
                default
            }
            Some(Err(error)) => {
                self.problem(error.to_string());
                default
            }
        }
    }

    fn threshold(mut self, raw: Option<u32>, default: u32) -> u32 {
        let threshold = raw.unwrap_or(default);
        if !(1..=10).contains(&threshold) {
            self.problem("must be from 1 to 10");
        }
        threshold
    }
}

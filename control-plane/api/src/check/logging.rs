use std::ops::RangeInclusive;
use std::time::Duration;

use super::Findings;
use crate::parse_duration;

/// The time from which on a request is slow, if `logging.slow` is unset.
const SLOW: Duration = Duration::from_secs(5);
/// Times that `logging.slow` may be.
const SLOW_TIMES: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// `spec.logging.mode` and `logMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogMode {
    /// Says nothing.
    #[default]
    Unset,
    /// Asks for lines.
    On,
    /// Forbids them.
    Off,
}

impl LogMode {
    /// Whether the access log has a request, by the modes of its cluster and policy: `off` on either side wins, else `on` on
    /// either side, else there is no line. As in KubeGateway.
    pub fn is_logged(self, policy: LogMode) -> bool {
        match (self, policy) {
            (LogMode::Off, _) | (_, LogMode::Off) => false,
            (LogMode::On, _) | (_, LogMode::On) => true,
            (LogMode::Unset, LogMode::Unset) => false,
        }
    }
}

pub(super) fn check_log_mode(mode: &str, path: String, findings: &mut Findings) -> LogMode {
    match mode {
        "" => LogMode::Unset,
        "on" => LogMode::On,
        "off" => LogMode::Off,
        _ => {
            findings.problem(path, "must be on or off");
            LogMode::Unset
        }
    }
}

/// `spec.portcullis.logging.slow`; `None` for 0.
pub(super) fn check_slow(raw: Option<&str>, findings: &mut Findings) -> Option<Duration> {
    let problem = match raw.map(parse_duration) {
        None => return Some(SLOW),
        Some(Ok(Duration::ZERO)) => return None,
        Some(Ok(slow)) if SLOW_TIMES.contains(&slow) => return Some(slow),
        Some(Ok(_)) => "must be from 10ms to 1h, or 0 for no request".to_owned(),
        Some(Err(error)) => error.to_string(),
    };
    findings.problem("spec.portcullis.logging.slow", problem);
    Some(SLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_wins_then_on_then_silence() {
        use LogMode::{Off, On, Unset};
        let table = [
            (Unset, Unset, false),
            (Unset, On, true),
            (Unset, Off, false),
            (On, Unset, true),
            (On, On, true),
            (On, Off, false),
            (Off, Unset, false),
            (Off, On, false),
            (Off, Off, false),
        ];
        for (cluster, policy, expected) in table {
            assert_eq!(cluster.is_logged(policy), expected, "{cluster:?} {policy:?}");
        }
    }

    #[test]
    fn slow_is_a_time_or_none() {
        let table = [(None, Some(5_000)), (Some("0"), None), (Some("0s"), None), (Some("250ms"), Some(250))];
        for (raw, expected) in table {
            let mut findings = Findings::default();
            assert_eq!(check_slow(raw, &mut findings), expected.map(Duration::from_millis), "{raw:?}");
            assert!(findings.problems.is_empty(), "{raw:?}");
        }
        for raw in ["5", "1ms", "2h", "-1s", "soon"] {
            let mut findings = Findings::default();
            check_slow(Some(raw), &mut findings);
            assert_eq!(findings.problems.len(), 1, "{raw}");
        }
    }

    #[test]
    fn other_words_are_problems() {
        let mut findings = Findings::default();
        for mode in ["On", "true", "all", " on"] {
            assert_eq!(check_log_mode(mode, "mode".to_owned(), &mut findings), LogMode::Unset);
        }
        assert_eq!(findings.problems.len(), 4);
    }
}

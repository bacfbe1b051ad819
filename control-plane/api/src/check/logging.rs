use super::Findings;

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
    fn other_words_are_problems() {
        let mut findings = Findings::default();
        for mode in ["On", "true", "all", " on"] {
            assert_eq!(check_log_mode(mode, "mode".to_owned(), &mut findings), LogMode::Unset);
        }
        assert_eq!(findings.problems.len(), 4);
    }
}

use crate::long_streams::TerminationReason;
use crate::refusal::Cause;

/// The outcome of a request, as far as the gateway decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It went upstream.
    Forwarded,
    /// The filter answered it.
    Refused(Cause),
    /// It went upstream, and the filter replaced the answer. Counted beside [`Outcome::Forwarded`].
    Replaced(Cause),
    /// It went upstream, and the filter ended it later. Counted beside [`Outcome::Forwarded`].
    Terminated(TerminationReason),
    /// Its client left before the filter had decided, while the filter waited for a review.
    Abandoned,
    /// Envoy answered it before the filter saw it: what is not HTTP, or not acceptable HTTP.
    Malformed,
}

impl Outcome {
    /// Values of the label `decision`.
    pub const DECISIONS: [&'static str; 5] = ["forwarded", "refused", "replaced", "ended", "abandoned"];

    /// The label `decision`.
    pub const fn decision(self) -> &'static str {
        match self {
            Outcome::Forwarded => "forwarded",
            Outcome::Refused(_) | Outcome::Malformed => "refused",
            Outcome::Replaced(_) => "replaced",
            Outcome::Terminated(_) => "ended",
            Outcome::Abandoned => "abandoned",
        }
    }

    /// The label `reason`; `-` where there is none.
    pub const fn reason(self) -> &'static str {
        match self {
            Outcome::Forwarded => "-",
            Outcome::Abandoned => "client_left",
            Outcome::Refused(cause) | Outcome::Replaced(cause) => cause.as_str(),
            Outcome::Terminated(why) => why.as_str(),
            Outcome::Malformed => "malformed",
        }
    }

    /// Values of the label `reason`.
    pub fn reasons() -> impl Iterator<Item = &'static str> {
        let causes = Cause::ALL.into_iter().map(Cause::as_str);
        ["-", "malformed", "client_left"]
            .into_iter()
            .chain(causes)
            .chain(TerminationReason::ALL.into_iter().map(TerminationReason::as_str))
    }

    pub(super) fn code(self) -> u8 {
        let of = |cause: Cause| Cause::ALL.iter().position(|one| *one == cause).and_then(|at| u8::try_from(at).ok());
        match self {
            Outcome::Forwarded => 0,
            Outcome::Malformed => 1,
            Outcome::Refused(cause) => of(cause).map_or(1, |at| at.saturating_mul(2).saturating_add(2)),
            Outcome::Replaced(cause) => of(cause).map_or(1, |at| at.saturating_mul(2).saturating_add(3)),
            Outcome::Terminated(TerminationReason::ServerRemoved) => 255,
            Outcome::Terminated(TerminationReason::SessionLimit) => 254,
            Outcome::Abandoned => 253,
            Outcome::Terminated(TerminationReason::ConfigurationReplaced) => 252,
            Outcome::Terminated(TerminationReason::UpgradeIgnored) => 251,
            Outcome::Terminated(TerminationReason::NewlyDenied) => 250,
        }
    }

    pub(super) fn of_code(code: u8) -> Self {
        let cause = |code: u8| Cause::ALL.get(usize::from(code.saturating_sub(2)) / 2).copied();
        match code {
            0 => Outcome::Forwarded,
            1 => Outcome::Malformed,
            255 => Outcome::Terminated(TerminationReason::ServerRemoved),
            254 => Outcome::Terminated(TerminationReason::SessionLimit),
            253 => Outcome::Abandoned,
            252 => Outcome::Terminated(TerminationReason::ConfigurationReplaced),
            251 => Outcome::Terminated(TerminationReason::UpgradeIgnored),
            250 => Outcome::Terminated(TerminationReason::NewlyDenied),
            even if even % 2 == 0 => cause(even).map_or(Outcome::Malformed, Outcome::Refused),
            odd => cause(odd).map_or(Outcome::Malformed, Outcome::Replaced),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_survives_its_code_and_says_words_of_the_sets() {
        let causes = Cause::ALL.into_iter().flat_map(|cause| [Outcome::Refused(cause), Outcome::Replaced(cause)]);
        let ends = TerminationReason::ALL.into_iter().map(Outcome::Terminated);
        for outcome in
            [Outcome::Forwarded, Outcome::Malformed, Outcome::Abandoned].into_iter().chain(causes).chain(ends)
        {
            assert_eq!(Outcome::of_code(outcome.code()), outcome);
            assert!(Outcome::DECISIONS.contains(&outcome.decision()));
            assert!(Outcome::reasons().any(|reason| reason == outcome.reason()));
        }
        let mut reasons: Vec<_> = Outcome::reasons().collect();
        let all = reasons.len();
        reasons.sort_unstable();
        reasons.dedup();
        assert_eq!(reasons.len(), all);
    }
}

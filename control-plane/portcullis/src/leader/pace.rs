use std::time::Duration;

use super::election::Timing;

/// Why a call led to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The API answered, with a code and a message: a right that is missing, a namespace that ends, too many requests.
    Refused(u16, String),
    NoConnection,
    NoAnswer,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(code, message) => write!(formatter, "{code} {message}"),
            Self::NoConnection => formatter.write_str("no connection"),
            Self::NoAnswer => formatter.write_str("no answer"),
        }
    }
}

/// The time between the beginnings of two rounds of a candidate.
pub(super) struct Pace {
    retry: Duration,
    pause: Duration,
}

impl Pace {
    /// Kubernetes' own controllers ask as often whatever the answer is.
    const LONGEST: Duration = Timing::CONTROLLER.retry;

    pub(super) fn new(retry: Duration) -> Self {
        Self { retry, pause: retry }
    }

    /// The time from the beginning of a round that ended so. An API that refuses is asked less and less often, but for the leader,
    /// which has little time and is one.
    pub(super) fn after(&mut self, outcome: &Result<(), Failure>, leads: bool) -> Duration {
        self.pause = match outcome {
            Ok(()) => self.retry,
            Err(Failure::Refused(..)) if !leads => (self.pause * 2).min(Self::LONGEST),
            Err(_) => self.pause,
        };
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_that_refuses_is_asked_less_often() {
        let refused = || Err(Failure::Refused(403, "forbidden".to_owned()));
        let mut pace = Pace::new(Timing::LIMITS.retry);
        let rows = [
            (Ok(()), false, 300),
            (refused(), true, 300),
            (refused(), false, 600),
            (refused(), false, 1_200),
            (Err(Failure::NoAnswer), false, 1_200),
            (refused(), false, 2_000),
            (refused(), false, 2_000),
            (Ok(()), false, 300),
            (Err(Failure::NoConnection), false, 300),
        ];
        for (outcome, leads, millis) in rows {
            assert_eq!(pace.after(&outcome, leads), Duration::from_millis(millis), "{outcome:?}, leads: {leads}");
        }
    }

    #[test]
    fn controller_is_as_often_there_whatever_the_answer() {
        let mut pace = Pace::new(Timing::CONTROLLER.retry);
        let refused = Err(Failure::Refused(429, String::new()));
        assert_eq!(pace.after(&refused, false), Timing::CONTROLLER.retry);
    }
}

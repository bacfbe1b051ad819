//! The figures of one proxy.

use portcullis_harness::client::Outcome;

use super::subject::Subject;
use crate::spread::Spread;

/// One turn.
pub(crate) struct Burst {
    /// CPU time of the proxy for a request.
    pub(crate) micros: Option<f64>,
    pub(crate) per_second: f64,
}

/// A row of the table.
pub(crate) struct Row {
    pub(crate) subject: Subject,
    pub(crate) bursts: Vec<Burst>,
    /// By rate.
    outcomes: Vec<(u32, Outcome)>,
    pub(crate) instructions: Option<f64>,
    /// Memory of a watch.
    pub(crate) watch_bytes: Option<f64>,
}

impl Row {
    pub(crate) fn new(subject: Subject) -> Self {
        Row { subject, bursts: Vec::new(), outcomes: Vec::new(), instructions: None, watch_bytes: None }
    }

    /// Adds a turn of the open loop.
    pub(crate) fn timed(&mut self, rate: u32, outcome: Outcome) {
        match self.outcomes.iter_mut().find(|(of, _)| *of == rate) {
            Some((_, before)) => *before = std::mem::take(before).and(outcome),
            None => self.outcomes.push((rate, outcome)),
        }
    }

    /// CPU time of a request, the median of the rounds.
    pub(crate) fn micros(&self) -> Option<f64> {
        let each: Option<Vec<f64>> = self.bursts.iter().map(|burst| burst.micros).collect();
        Some(Spread::of(each?.into_iter()).median()).filter(|micros| micros.is_finite())
    }

    /// The same in proportion to another one's in the same round.
    pub(crate) fn of(&self, other: &Row) -> Option<Spread> {
        let each = self.bursts.iter().zip(&other.bursts).map(|(own, other)| Some(own.micros? / other.micros?));
        Some(Spread::of(each.collect::<Option<Vec<f64>>>()?.into_iter()))
    }

    pub(crate) fn per_second(&self) -> f64 {
        Spread::of(self.bursts.iter().map(|burst| burst.per_second)).median()
    }

    /// The answering time at a rate, in milliseconds, within which that part of the requests was answered.
    pub(crate) fn millis(&self, rate: u32, part: f64) -> f64 {
        let outcome = self.outcomes.iter().find(|(of, _)| *of == rate);
        outcome.map_or(f64::NAN, |(_, outcome)| outcome.quantile(part).as_secs_f64() * 1_000.0)
    }
}

impl Row {
    /// The part of the requests at a rate that were refused or failed.
    pub(crate) fn failed(&self, rate: u32) -> f64 {
        let outcome = self.outcomes.iter().find(|(of, _)| *of == rate);
        outcome.map_or(0.0, |(_, outcome)| outcome.failed as f64 / outcome.sent.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Burst, Row};
    use crate::case::Case;
    use crate::compare::subject::Subject;

    #[test]
    fn ratio_is_of_the_same_round() {
        let row = |micros: [f64; 3]| {
            let bursts = micros.map(|micros| Burst { micros: Some(micros), per_second: 1.0 }).into_iter().collect();
            Row { bursts, ..Row::new(Subject::Envoy(Case::Bare)) }
        };
        let ratio = row([2.0, 30.0, 4.0]).of(&row([1.0, 10.0, 2.0])).unwrap();
        assert_eq!(ratio.median(), 2.0);
        assert_eq!(row([2.0, 30.0, 4.0]).micros(), Some(4.0));
    }
}

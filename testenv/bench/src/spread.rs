//! A median and how far the middle half lies around it, which one noisy neighbour does not move; and quantiles of times.

use std::fmt::{Display, Formatter, Result};
use std::time::Duration;

/// Quartiles of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    lower: f64,
    median: f64,
    upper: f64,
}

impl Spread {
    /// By the nearest figure. Nothing but NaN for no figures.
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let at = |quarter: usize| sorted.get((last * quarter + 2) / 4).copied().unwrap_or(f64::NAN);
        Spread { lower: at(1), median: at(2), upper: at(3) }
    }
}

impl Spread {
    /// The figure in the middle.
    pub(crate) fn median(self) -> f64 {
        self.median
    }
}

impl Display for Spread {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let digits = out.precision().unwrap_or(1);
        write!(out, "{:.digits$} ({:.digits$}-{:.digits$})", self.median, self.lower, self.upper)
    }
}

/// The time within which that part of the events came; none without events.
pub(crate) fn quantile(times: &[Duration], part: f64) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let index = sorted.len().saturating_sub(1) as f64 * part.clamp(0.0, 1.0);
    sorted.get(index.round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Spread, quantile};

    #[test]
    fn quantile_is_one_of_the_times() {
        let times: Vec<Duration> = [40, 10, 30, 20, 50].map(Duration::from_millis).into();
        let at = |part| quantile(&times, part).map(|time| time.as_millis());
        assert_eq!([at(0.0), at(0.5), at(0.99), at(1.0)], [Some(10), Some(30), Some(50), Some(50)]);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn one_odd_figure_moves_nothing() {
        let spread = Spread::of([5.0, 1.0, 3.0, 900.0, 2.0].into_iter());
        assert_eq!(format!("{spread:.1}"), "3.0 (2.0-5.0)");
    }
}

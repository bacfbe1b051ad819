//! A median and how far the middle half lies around it, which one noisy neighbour does not move.

use std::fmt::{Display, Formatter, Result};

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

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn one_odd_figure_moves_nothing() {
        let spread = Spread::of([5.0, 1.0, 3.0, 900.0, 2.0].into_iter());
        assert_eq!(format!("{spread:.1}"), "3.0 (2.0-5.0)");
    }
}

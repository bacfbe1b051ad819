use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Values by size, since the last time that they were taken.
#[derive(Debug)]
pub(super) struct Histogram<const N: usize> {
    /// Values up to each bound, each counted once.
    buckets: [AtomicU32; N],
    above: AtomicU32,
    sum: AtomicU64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        let buckets = [const { AtomicU32::new(0) }; N];
        Histogram { buckets, above: AtomicU32::new(0), sum: AtomicU64::new(0) }
    }
}

impl<const N: usize> Histogram<N> {
    pub(super) fn record(&self, bounds: &[(u64, &str); N], value: u64) {
        let place = bounds.iter().position(|(bound, _)| value <= *bound);
        place.and_then(|place| self.buckets.get(place)).unwrap_or(&self.above).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Takes the counts out, those of smaller values included in each; and whole units of the sum. The rest of the sum stays for
    /// the next time.
    pub(super) fn take(&self, unit: u64) -> Option<Taken<N>> {
        let mut count = 0_u64;
        let mut buckets = [0; N];
        for (bucket, taken) in self.buckets.iter().zip(&mut buckets) {
            count = count.saturating_add(u64::from(swap(bucket)));
            *taken = count;
        }
        count = count.saturating_add(u64::from(swap(&self.above)));
        if count == 0 {
            return None;
        }
        // Taken out whole and partly put back: of two that take at a time none subtracts what the other has.
        let found = self.sum.swap(0, Ordering::Relaxed);
        let sum = found.checked_div(unit).unwrap_or(0);
        let left = found.saturating_sub(sum.saturating_mul(unit));
        self.sum.fetch_add(left, Ordering::Relaxed);
        Some(Taken { buckets, count, sum, left })
    }
}

/// Reads before it writes: most counts of a large table stand still.
pub(super) fn swap(count: &AtomicU32) -> u32 {
    if count.load(Ordering::Relaxed) == 0 { 0 } else { count.swap(0, Ordering::Acquire) }
}

/// The counts of a [`Histogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken<const N: usize> {
    /// Values up to each bound.
    pub(super) buckets: [u64; N],
    /// All values.
    pub(super) count: u64,
    /// Their sum, in whole units.
    pub(super) sum: u64,
    /// The part of the sum that stays for the next time.
    pub(super) left: u64,
}

#[cfg(test)]
mod tests {
    use super::super::catalog::DURATION_BOUNDS;
    use super::*;

    #[test]
    fn histogram_counts_up_to_bounds_and_keeps_fractions() {
        let histogram = Histogram::default();
        for value in [0, 5_000, 5_001, 25_000, 60_000_000, 60_000_001] {
            histogram.record(&DURATION_BOUNDS, value);
        }
        let taken = histogram.take(1_000_000).unwrap();
        assert_eq!((taken.buckets[0], taken.buckets[1], taken.buckets[DURATION_BOUNDS.len() - 1]), (2, 4, 5));
        assert_eq!((taken.count, taken.sum, taken.left), (6, 120, 35_002));
        assert_eq!(histogram.take(1_000_000), None);
        histogram.record(&DURATION_BOUNDS, 970_000);
        assert_eq!(histogram.take(1_000_000).unwrap().sum, 1, "35,002 microseconds were left");
    }

    #[test]
    fn sum_survives_threads_that_take_it_at_a_time() {
        let (histogram, taken) = (Histogram::default(), AtomicU64::new(0));
        let take = || {
            let units = histogram.take(1_000).map_or(0, |taken| taken.sum);
            assert!(units <= 20_000 * 3, "{units}");
            taken.fetch_add(units, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..20_000).for_each(|_| histogram.record(&DURATION_BOUNDS, 2_700)));
            for _ in 0..3 {
                scope.spawn(|| (0..20_000).for_each(|_| take()));
            }
        });
        histogram.record(&DURATION_BOUNDS, 0);
        take();
        assert_eq!((taken.into_inner(), histogram.sum.into_inner()), (54_000, 0));
    }
}

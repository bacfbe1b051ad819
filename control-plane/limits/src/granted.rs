//! The units that answers have given, for as long as leases of former answers may last.

use std::time::Duration;

use crate::holdings::RESERVED_FOR;

/// The units of the newest answers to an owner's processes, and the most that they were while a former lease may last: an answer with a
/// smaller part may be lost. A former sum counts for a lease at least and for two at most, however often the newest one changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Granted {
    pub(crate) newest: u64,
    /// The most since `since`, and in the time before that.
    pub(crate) most: u64,
    pub(crate) most_before: u64,
    pub(crate) since: Duration,
}

impl Granted {
    /// Notes the sum after an answer.
    pub(crate) fn note(&mut self, units: u64, now: Duration) {
        if now >= self.since.saturating_add(RESERVED_FOR) {
            (self.most_before, self.most, self.since) = (self.most, 0, now);
        }
        self.newest = units;
        self.most = self.most.max(units);
    }

    /// The most that leases of the newest answers, and of those before, may have.
    pub(crate) fn leased(&self, now: Duration) -> u64 {
        let before = if now < self.since.saturating_add(RESERVED_FOR) { self.most_before } else { 0 };
        self.newest.max(self.most).max(before)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn granted_units_count_for_one_lease_to_two(answers in prop::collection::vec((0..3_000_u64, 0..50_u64), 1..80)) {
            let (mut granted, mut now) = (Granted::default(), Duration::from_secs(1_000));
            let mut known: Vec<(Duration, u64)> = Vec::new();
            for (later, units) in answers {
                now += Duration::from_millis(later);
                // A sum lasts until the next one, and its leases a while longer.
                let most = |time: Duration| {
                    let ends = known.iter().skip(1).map(|(at, _)| *at).chain([now]);
                    let all = known.iter().zip(ends).filter(|(_, end)| now < *end + time);
                    all.map(|((_, units), _)| *units).max().unwrap_or_default()
                };
                let leased = granted.leased(now);
                prop_assert!(leased >= most(RESERVED_FOR), "{leased} at {now:?} after {known:?}");
                // Two leases, and the time until the answer that ends the first one.
                let longest = RESERVED_FOR * 2 + Duration::from_secs(3);
                prop_assert!(leased <= most(longest), "{leased} at {now:?} after {known:?}");
                granted.note(units, now);
                known.push((now, units));
            }
        }
    }
}

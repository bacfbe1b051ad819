use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use portcullis_limits::RESERVED_FOR;

/// The times of the last reports, by their senders. One more is noted at the cost of a search, however many there are.
#[derive(Debug)]
pub(super) struct RecentReports<K> {
    last: BTreeMap<K, Duration>,
    /// The same, in the order of time.
    order: BTreeSet<(Duration, K)>,
}

impl<K> Default for RecentReports<K> {
    fn default() -> Self {
        Self { last: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> RecentReports<K> {
    /// Takes note of a report. False if there are so many senders for which parts may be reserved, and this is none of them.
    pub(super) fn admit(&mut self, sender: &K, most: usize, now: Duration) -> bool {
        let before = self.last.get(sender).copied();
        if before.is_none() && self.last.len() >= most && self.forget_oldest(now).is_none() {
            return false;
        }
        let last = before.map_or(now, |before| before.max(now));
        if before != Some(last) {
            if let Some(before) = before {
                self.order.remove(&(before, sender.clone()));
            }
            self.last.insert(sender.clone(), last);
            self.order.insert((last, sender.clone()));
        }
        true
    }

    /// Forgets the sender that has been silent for longest, if no part may be reserved for it.
    pub(super) fn forget_oldest(&mut self, now: Duration) -> Option<K> {
        let (last, _) = self.order.first()?;
        if now < last.saturating_add(RESERVED_FOR) {
            return None;
        }
        let (_, sender) = self.order.pop_first()?;
        self.last.remove(&sender);
        Some(sender)
    }

    pub(super) fn contains(&self, sender: &K) -> bool {
        self.last.contains_key(sender)
    }

    /// The senders, from that one on in their order, for which parts may be reserved.
    pub(super) fn recent_from(&self, first: &K, now: Duration) -> impl Iterator<Item = &K> {
        let recent = self.last.range::<K, _>(first..).filter(move |(_, last)| now < last.saturating_add(RESERVED_FOR));
        recent.map(|(sender, _)| sender)
    }

    pub(super) fn len(&self) -> usize {
        self.last.len()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As a list of all that are held.
        #[test]
        fn senders_have_places_until_nothing_is_reserved_for_them(
            reports in prop::collection::vec((0..8_u8, 0..3_000_u64), 0..80)
        ) {
            let (mut recent, mut known) = (RecentReports::default(), BTreeMap::new());
            let mut now = Duration::from_secs(1_000);
            for (sender, milliseconds) in reports {
                now += Duration::from_millis(milliseconds);
                if !known.contains_key(&sender) && known.len() >= 4 {
                    known.retain(|_, last| now < *last + RESERVED_FOR);
                }
                let has_place = known.contains_key(&sender) || known.len() < 4;
                prop_assert_eq!(recent.admit(&sender, 4, now), has_place);
                if has_place {
                    known.insert(sender, now);
                }
                prop_assert_eq!(recent.last.len(), recent.order.len());
                prop_assert!(recent.len() <= 4);
            }
        }
    }

    /// A sender that counts how often it is compared.
    #[derive(Clone, Debug)]
    struct Compared(u64, Rc<Cell<usize>>);

    impl Ord for Compared {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Compared {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Compared {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Compared {}

    #[test]
    fn report_is_noted_with_few_comparisons_among_thousands() {
        let (mut recent, count) = (RecentReports::default(), Rc::new(Cell::new(0)));
        let now = Duration::from_secs(1_000);
        let mut most = 0;
        for (number, at) in
            (0..8_000).map(|number| (number, now)).chain((9_000..13_000).map(|number| (number, now * 2)))
        {
            count.set(0);
            recent.admit(&Compared(number, Rc::clone(&count)), 4_000, at);
            most = most.max(count.get());
        }
        assert_eq!(recent.len(), 4_000);
        assert!(most < 400, "{most}");
    }
}

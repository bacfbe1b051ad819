//! A queue with a line for each tenant: by weighted fair queueing (Golestani's self-clocked form) a tenant with much to do delays the
//! others by no more than their own share.

use std::collections::{BTreeMap, VecDeque};

/// Things of tenants that wait, each once.
#[derive(Debug)]
pub(super) struct TenantQueue<T, K> {
    lines: BTreeMap<T, TenantLine<K>>,
    /// The tenant in whose line a thing waits.
    tenants: BTreeMap<K, T>,
    /// The tag of the thing that was taken last.
    clock: u64,
}

/// The things of one tenant that wait, in the order of their arrival.
#[derive(Debug)]
struct TenantLine<K> {
    waiting: VecDeque<K>,
    /// The tag from which that of the first one is counted: of the one before it, or of the time at which the line began.
    start: u64,
}

/// The weights of things that are taken at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundBudget {
    /// Those that may be taken beside a tenant's who is done.
    pub(super) least: u64,
    pub(super) most: u64,
}

impl<T, K> Default for TenantQueue<T, K> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), tenants: BTreeMap::new(), clock: 0 }
    }
}

impl<T: Ord + Clone, K: Ord + Clone> TenantQueue<T, K> {
    /// Adds a thing; one that waits already keeps its place.
    pub(super) fn add(&mut self, key: K, tenant: impl FnOnce() -> T) {
        if self.tenants.contains_key(&key) {
            return;
        }
        let tenant = tenant();
        self.tenants.insert(key.clone(), tenant.clone());
        let begin = || TenantLine { waiting: VecDeque::new(), start: self.clock };
        self.lines.entry(tenant).or_insert_with(begin).waiting.push_back(key);
    }

    /// Keeps those things that still have something to wait for.
    pub(super) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.tenants.retain(|key, _| keep(key));
        self.lines.values_mut().for_each(|line| line.waiting.retain(&keep));
        self.forget_empty();
    }

    /// Takes things until their weights together are the most of the budget or more: at least one, if there is any. A tenant who has
    /// nothing left ends it before, once the least of the budget is used and each other one has had as much. The weight of each thing is
    /// one at least.
    pub(super) fn take(&mut self, budget: &RoundBudget, weight: impl Fn(&K) -> u64) -> Vec<K> {
        let (mut taken, mut used) = (Vec::new(), 0_u64);
        // The last tag of the first tenant who is done.
        let mut done: Option<u64> = None;
        // Only the line from which the last one was taken has another first one: the others are weighed once.
        let tag_of = |line: &TenantLine<K>| {
            let first = line.waiting.front()?;
            Some(line.start.saturating_add(weight(first).max(1)))
        };
        let mut tags: BTreeMap<T, u64> = BTreeMap::new();
        for (tenant, line) in &self.lines {
            tags.extend(tag_of(line).map(|tag| (tenant.clone(), tag)));
        }
        while used < budget.most {
            let next = tags.iter().min_by_key(|(_, tag)| **tag).map(|(tenant, tag)| (tenant.clone(), *tag));
            let Some((tenant, tag)) = next else { break };
            if used >= budget.least && done.is_some_and(|done| tag > done) {
                break;
            }
            tags.remove(&tenant);
            let Some(line) = self.lines.get_mut(&tenant) else { break };
            let Some(key) = line.waiting.pop_front() else { break };
            used = used.saturating_add(tag.saturating_sub(line.start));
            (line.start, self.clock) = (tag, self.clock.max(tag));
            match tag_of(line) {
                Some(next) => {
                    tags.insert(tenant, next);
                }
                None => done = done.or(Some(tag)),
            }
            self.tenants.remove(&key);
            taken.push(key);
        }
        self.forget_empty();
        taken
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// The number of things that wait, by tenant.
    pub(super) fn lengths(&self) -> impl Iterator<Item = (&T, usize)> {
        self.lines.iter().map(|(tenant, line)| (tenant, line.waiting.len()))
    }

    /// A tenant that comes back begins at the clock, which is not before its last tag: it gains nothing by leaving.
    fn forget_empty(&mut self) {
        self.lines.retain(|_, line| !line.waiting.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// As much as that, even if a tenant is done.
    fn all(most: u64) -> RoundBudget {
        RoundBudget { least: most, most }
    }

    #[test]
    fn tenants_are_served_in_turn_and_a_thing_waits_once() {
        let mut queue: TenantQueue<&str, u32> = TenantQueue::default();
        (0..100).for_each(|key| queue.add(key, || "storm"));
        assert_eq!(queue.take(&all(3), |_| 1), [0, 1, 2]);
        queue.add(200, || "quiet");
        queue.add(5, || "quiet");
        assert_eq!(queue.take(&all(2), |_| 1), [200, 3], "another one's turn comes first");
        assert_eq!(queue.lengths().collect::<Vec<_>>(), [(&"storm", 96)], "one that waits stays where it is");
        queue.retain(|key| *key > 97);
        assert_eq!(queue.take(&all(100), |_| 1), [98, 99]);
        assert!(queue.is_empty() && queue.take(&all(1), |_| 1).is_empty());
    }

    /// Else its result would wait for that of others.
    #[test]
    fn tenant_who_is_done_ends_the_round_when_others_had_as_much() {
        let round = |edits: [u32; 3], budget: RoundBudget| {
            let mut queue: TenantQueue<usize, (usize, u32)> = TenantQueue::default();
            for (tenant, count) in edits.into_iter().enumerate() {
                (0..count).for_each(|number| queue.add((tenant, number), || tenant));
            }
            let taken = queue.take(&budget, |_| 1);
            [0, 1, 2].map(|tenant| taken.iter().filter(|(of, _)| *of == tenant).count())
        };
        let budget = RoundBudget { least: 1, most: 50 };
        assert_eq!(round([100, 1, 0], budget), [1, 1, 0]);
        assert_eq!(round([100, 3, 7], budget), [3, 3, 3]);
        assert_eq!(round([0, 1, 1], budget), [0, 1, 1]);
        assert_eq!(round([100, 0, 0], budget), [50, 0, 0]);
        assert_eq!(round([100, 100, 0], budget), [25, 25, 0]);
        assert_eq!(round([100, 1, 1], RoundBudget { least: 10, ..budget }), [8, 1, 1]);
    }

    #[test]
    fn heavy_thing_does_not_go_before_light_ones() {
        let mut queue: TenantQueue<&str, u32> = TenantQueue::default();
        (0..3).for_each(|key| queue.add(key, || "heavy"));
        (10..14).for_each(|key| queue.add(key, || "light"));
        let weight = |key: &u32| if *key < 10 { 3 } else { 1 };
        assert_eq!(queue.take(&all(1), weight), [10]);
        assert_eq!(queue.take(&all(5), weight).iter().filter(|key| **key >= 10).count(), 2);
        assert_eq!(queue.take(&all(u64::MAX), |_| 0).len(), 3);
    }

    /// In each round some arrive: the tenant, how many and how heavy they are.
    fn arrivals() -> impl Strategy<Value = Vec<Vec<(u8, usize, u64)>>> {
        let arrival = (0..5_u8, 1..40_usize, 1..8_u64);
        proptest::collection::vec(proptest::collection::vec(arrival, 0..4), 1..30)
    }

    proptest! {
        #[test]
        fn quiet_tenants_edit_waits_for_its_share_alone(rounds in arrivals(), budget in 60..90_u64) {
            const QUIET: u8 = 200;
            let (mut queue, mut weights) = (TenantQueue::default(), BTreeMap::new());
            let (mut added, mut taken) = (BTreeSet::new(), BTreeSet::new());
            let mut next = 0_u64;
            for arrivals in &rounds {
                for (tenant, count, weight) in arrivals {
                    for _ in 0..*count {
                        next += 1;
                        weights.insert(next, *weight);
                        added.insert(next);
                        queue.add(next, || *tenant);
                    }
                }
                // The others have five lines, of each of which one thing of seven and one of the same weight may go before.
                next += 1;
                weights.insert(next, 1);
                added.insert(next);
                queue.add(next, || QUIET);
                let round = queue.take(&all(budget), |key| weights[key]);
                prop_assert!(round.contains(&next), "{round:?} without {next}");
                let used: u64 = round.iter().map(|key| weights[key]).sum();
                prop_assert!(used < budget + 8, "a round is bounded: {used}");
                for key in round {
                    prop_assert!(taken.insert(key), "{key} was taken twice");
                }
            }
            while !queue.is_empty() {
                taken.extend(queue.take(&all(budget), |key| weights[key]));
            }
            prop_assert_eq!(added, taken);
        }

        #[test]
        fn tenants_with_work_get_equal_shares(weights in proptest::collection::vec(1..8_u64, 2..6)) {
            let mut queue = TenantQueue::default();
            for (tenant, _) in weights.iter().enumerate() {
                (0..2_000_usize).for_each(|number| queue.add((tenant, number), || tenant));
            }
            let taken = queue.take(&all(1_000), |(tenant, _)| weights[*tenant]);
            let share = |tenant| taken.iter().filter(|(of, _)| *of == tenant).count() as u64 * weights[tenant];
            let shares: Vec<u64> = (0..weights.len()).map(share).collect();
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            prop_assert!(most - least <= 14, "{shares:?}");
        }
    }
}

//! Memory for what gateways report, by the owner of their nodes: a flood of one instance takes none from others.

use std::collections::BTreeMap;

/// Most instances whose gateways are remembered at a time.
const MAX_OWNERS: usize = 100;

/// Bytes for the gateways of instances.
#[derive(Clone, Copy, Debug)]
pub struct InstanceShares {
    /// Kept for each instance.
    pub own: usize,
    /// For all of them together beyond that.
    pub rest: usize,
    /// Most of one instance: its own, and what it takes of the rest.
    pub most: usize,
}

/// The bytes that each owner takes.
#[derive(Debug, Default)]
pub struct OwnerBytes {
    of_none: usize,
    /// Of those that take some.
    owned: BTreeMap<String, usize>,
}

impl OwnerBytes {
    /// The sums of entries.
    pub fn sums<'a>(entries: impl IntoIterator<Item = (Option<&'a str>, usize)>) -> Self {
        let mut sums = Self::default();
        entries.into_iter().for_each(|(owner, bytes)| sums.change(owner, 0, bytes));
        sums
    }

    /// The bytes of one owner; `None` is that of what belongs to no instance.
    pub fn of(&self, owner: Option<&str>) -> usize {
        owner.map_or(self.of_none, |owner| self.owned.get(owner).copied().unwrap_or_default())
    }

    /// Those of all.
    pub fn total(&self) -> usize {
        self.of_none + self.owned.values().sum::<usize>()
    }

    /// Counts bytes that were freed, and others that were taken.
    pub fn change(&mut self, owner: Option<&str>, freed: usize, taken: usize) {
        let now = self.of(owner).saturating_add(taken).saturating_sub(freed);
        match owner {
            None => self.of_none = now,
            Some(owner) if now == 0 => drop(self.owned.remove(owner)),
            Some(owner) => match self.owned.get_mut(owner) {
                Some(known) => *known = now,
                None => drop(self.owned.insert(owner.to_owned(), now)),
            },
        }
    }

    /// Whether an owner may take more. `of_none` are most bytes of what belongs to no instance.
    pub fn has_room(&self, owner: Option<&str>, more: usize, of_none: usize, shares: &InstanceShares) -> bool {
        let taken = self.of(owner).saturating_add(more);
        let Some(owner) = owner else { return taken <= of_none };
        if taken <= shares.own {
            return self.owned.contains_key(owner) || self.owned.len() < MAX_OWNERS;
        }
        let others = self.owned.iter().filter(|(other, _)| *other != owner).map(|(_, bytes)| *bytes);
        let by_others: usize = others.map(|bytes| bytes.saturating_sub(shares.own)).sum();
        taken <= shares.most && by_others.saturating_add(taken - shares.own) <= shares.rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARES: InstanceShares = InstanceShares { own: 10, rest: 30, most: 25 };

    #[test]
    fn flood_of_one_owner_leaves_the_part_of_each_other_one() {
        let mut bytes = OwnerBytes::default();
        let mut take = |owner: Option<&str>, more: usize| {
            let has_room = bytes.has_room(owner, more, 50, &SHARES);
            if has_room {
                bytes.change(owner, 0, more);
            }
            has_room
        };
        assert!(take(Some("a"), 25) && !take(Some("a"), 1), "its own, and a part of the rest");
        assert!(take(Some("b"), 25) && !take(Some("c"), 11), "no more is left than each one's own");
        assert!(take(Some("c"), 10) && !take(Some("c"), 1));
        assert!(take(None, 50) && !take(None, 1));
        bytes.change(Some("a"), 25, 0);
        assert!(bytes.has_room(Some("c"), 15, 50, &SHARES), "what is given back is for others");
        assert_eq!((bytes.of(Some("a")), bytes.owned.len(), bytes.total()), (0, 2, 85));
    }

    proptest! {
        #[test]
        fn bytes_of_all_are_bounded_and_each_has_its_own(
            takes in prop::collection::vec((0..120_usize, 0..30_usize, any::<bool>()), 0..300)
        ) {
            let mut bytes = OwnerBytes::default();
            for (owner, amount, is_given_back) in takes {
                let name = owner.to_string();
                let owner = (owner > 0).then_some(name.as_str());
                let is_known = owner.is_none_or(|owner| bytes.owned.contains_key(owner) || bytes.owned.len() < MAX_OWNERS);
                if is_given_back {
                    bytes.change(owner, amount, 0);
                } else if bytes.has_room(owner, amount, 50, &SHARES) {
                    bytes.change(owner, 0, amount);
                } else {
                    prop_assert!(!is_known || bytes.of(owner) + amount > SHARES.own, "{:?}", owner);
                }
                prop_assert!(bytes.total() <= 50 + MAX_OWNERS * SHARES.own + SHARES.rest);
            }
        }
    }
}

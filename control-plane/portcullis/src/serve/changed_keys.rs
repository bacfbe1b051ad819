//! The difference of two maps.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The keys that one of two maps has alone, or that have another value in each.
pub(super) fn changed_keys<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    after: &'a BTreeMap<K, V>,
) -> Vec<&'a K> {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    let mut changed = Vec::new();
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some((gone, _)), Some((new, _))) => gone.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return changed,
        };
        let (one, other) = match order {
            Ordering::Less => (before.next(), None),
            Ordering::Greater => (None, after.next()),
            Ordering::Equal => (before.next(), after.next()),
        };
        if one.map(|(_, value)| value) != other.map(|(_, value)| value) {
            changed.extend(one.or(other).map(|(key, _)| key));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn changed_keys_are_those_with_other_values(
            before in proptest::collection::btree_map(0..9_u8, 0..3_u8, 0..9),
            after in proptest::collection::btree_map(0..9_u8, 0..3_u8, 0..9),
        ) {
            let expected: Vec<u8> = (0..9).filter(|key| before.get(key) != after.get(key)).collect();
            let found: Vec<u8> = changed_keys(&before, &after).into_iter().copied().collect();
            prop_assert_eq!(found, expected);
        }
    }
}

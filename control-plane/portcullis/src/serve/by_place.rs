//! Things made of the items of a list, remembered by place: of a list that is almost the one before almost nothing is made.

use std::collections::HashMap;
use std::sync::Arc;

/// The items of the last list, each with what was made of it. Items are the same if they are the same allocation, which is kept, so that
/// no other one gets its address.
#[derive(Debug)]
pub(super) struct ByPlace<K: ?Sized, T> {
    last: Vec<Option<(Arc<K>, T)>>,
}

/// The difference of a list to the one before. An item that has moved is in neither part.
#[derive(Debug)]
pub(super) struct PlaceChange<K: ?Sized, T> {
    /// The places of items that were made anew.
    pub(super) new: Vec<usize>,
    /// The items that left their places, and are at no other one that has changed.
    pub(super) gone: Vec<(Arc<K>, T)>,
}

impl<K: ?Sized, T> Default for ByPlace<K, T> {
    fn default() -> Self {
        Self { last: Vec::new() }
    }
}

impl<K: ?Sized, T> ByPlace<K, T> {
    /// Follows a list: `make` is called for items that the list before did not have, in their order.
    pub(super) fn follow(&mut self, items: &[Arc<K>], mut make: impl FnMut(usize, &Arc<K>) -> T) -> PlaceChange<K, T> {
        let surplus = self.last.split_off(self.last.len().min(items.len()));
        self.last.resize_with(items.len(), || None);
        let mut apart = HashMap::new();
        let mut set_apart = |one: Option<(Arc<K>, T)>| apart.extend(one.map(|one| (address(&one.0), one)));
        surplus.into_iter().for_each(&mut set_apart);
        let mut others = Vec::new();
        for (at, (item, known)) in items.iter().zip(&mut self.last).enumerate() {
            if !known.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, item)) {
                set_apart(known.take());
                others.push(at);
            }
        }
        let mut new = Vec::new();
        for at in others {
            let (Some(item), Some(known)) = (items.get(at), self.last.get_mut(at)) else { continue };
            let moved = apart.remove(&address(item));
            if moved.is_none() {
                new.push(at);
            }
            *known = moved.or_else(|| Some((Arc::clone(item), make(at, item))));
        }
        PlaceChange { new, gone: apart.into_values().collect() }
    }

    /// The things made of the items, in their order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.last.iter().flatten().map(|(_, made)| made)
    }

    /// The items with what was made of them, in their order.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = (&Arc<K>, &mut T)> {
        self.last.iter_mut().flatten().map(|(item, made)| (&*item, made))
    }
}

fn address<K: ?Sized>(item: &Arc<K>) -> usize {
    Arc::as_ptr(item).addr()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edit_of_one_among_many_is_one_that_is_made() {
        let mut known: ByPlace<usize, usize> = ByPlace::default();
        let mut items: Vec<Arc<usize>> = (0..10_000).map(Arc::new).collect();
        let mut made = 0;
        let mut follow = |items: &[Arc<usize>]| {
            known.follow(items, |_, item| {
                made += 1;
                **item
            });
            std::mem::take(&mut made)
        };
        assert_eq!((follow(&items), follow(&items)), (10_000, 0));
        items[5_000] = Arc::new(5_000);
        assert_eq!(follow(&items), 1);
        items.insert(0, Arc::new(0));
        assert_eq!(follow(&items), 1, "the others have moved");
        items.remove(7_000);
        assert_eq!(follow(&items), 0);
    }

    proptest! {
        #[test]
        fn values_are_those_of_the_items(lists in proptest::collection::vec(proptest::collection::vec(0..12_usize, 0..9), 1..8)) {
            let all: Vec<Arc<usize>> = (0..12).map(Arc::new).collect();
            let mut known: ByPlace<usize, usize> = ByPlace::default();
            let mut before: Vec<usize> = Vec::new();
            for list in lists {
                let items: Vec<Arc<usize>> = list.iter().map(|number| Arc::clone(&all[*number])).collect();
                let change = known.follow(&items, |at, item| {
                    assert!(Arc::ptr_eq(item, &items[at]));
                    **item + 100
                });
                let expected: Vec<usize> = list.iter().map(|number| number + 100).collect();
                prop_assert_eq!(known.values().copied().collect::<Vec<_>>(), expected);
                for number in 0..12 {
                    let is_new = change.new.iter().any(|at| list[*at] == number);
                    let is_gone = change.gone.iter().any(|(item, _)| **item == number);
                    let (was, is) = (before.contains(&number), list.contains(&number));
                    // Of one that is there twice a second place may be new, or gone.
                    prop_assert!(!is || was || is_new);
                    prop_assert!(is || !was || is_gone);
                    prop_assert!(!is_new || is);
                    prop_assert!(!is_gone || was);
                }
                before = list;
            }
        }
    }
}

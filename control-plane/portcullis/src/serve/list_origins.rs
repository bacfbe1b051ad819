//! From where the elements of a list come.

use std::collections::HashMap;
use std::sync::Arc;

/// For each element of `after` the place of the same allocation in `before`, if it is there. Each place is the origin of one at most.
pub(super) fn origins<T>(before: &[Arc<T>], after: &[Arc<T>]) -> Vec<Option<usize>> {
    let is_same = |(one, other): &(&Arc<T>, &Arc<T>)| Arc::ptr_eq(one, other);
    let begin = before.iter().zip(after).take_while(is_same).count();
    let most = before.len().min(after.len()) - begin;
    let end = before.iter().rev().zip(after.iter().rev()).take(most).take_while(is_same).count();
    // Between what both begin and end with, an edit leaves most where it was.
    let between = begin..after.len() - end;
    let place = |place: usize| {
        if between.contains(&place) {
            let pair = before.get(place).zip(after.get(place)).filter(is_same);
            pair.filter(|_| place < before.len() - end).map(|_| place)
        } else if place < begin {
            Some(place)
        } else {
            Some(place + before.len() - after.len())
        }
    };
    let mut origins: Vec<Option<usize>> = (0..after.len()).map(place).collect();
    let mut moved: HashMap<*const T, usize> = HashMap::new();
    let is_there = |place: usize| origins.get(place).copied().flatten() == Some(place);
    for (place, one) in before.iter().enumerate().take(before.len() - end).skip(begin).filter(|(at, _)| !is_there(*at))
    {
        moved.entry(Arc::as_ptr(one)).or_insert(place);
    }
    if !moved.is_empty() {
        for (origin, one) in origins.iter_mut().zip(after).filter(|(origin, _)| origin.is_none()) {
            *origin = moved.remove(&Arc::as_ptr(one));
        }
    }
    origins
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_that_stay_are_found(
            before in proptest::collection::vec(0..12_usize, 0..12),
            after in proptest::collection::vec(0..12_usize, 0..12),
        ) {
            let all: Vec<Arc<usize>> = (0..12).map(Arc::new).collect();
            let list = |places: &[usize]| places.iter().map(|place| Arc::clone(&all[*place])).collect::<Vec<_>>();
            let (before, after) = (list(&before), list(&after));
            let origins = origins(&before, &after);
            prop_assert_eq!(origins.len(), after.len());
            let mut used = BTreeSet::new();
            for (origin, one) in origins.iter().zip(&after) {
                match origin {
                    Some(place) => prop_assert!(Arc::ptr_eq(&before[*place], one) && used.insert(*place)),
                    // One that is in a list several times may count as new.
                    None => prop_assert!(
                        !before.contains(one) || after.iter().chain(&before).filter(|other| *other == one).count() > 2
                    ),
                }
            }
        }

        #[test]
        fn edited_list_keeps_all_others(count in 1..40_usize, edited in proptest::collection::btree_set(0..40_usize, 0..4), gone in 0..40_usize) {
            let before: Vec<Arc<usize>> = (0..count).map(Arc::new).collect();
            let edit = |(place, one): (usize, &Arc<usize>)| if edited.contains(&place) { Arc::new(0) } else { Arc::clone(one) };
            let mut after: Vec<Arc<usize>> = before.iter().enumerate().map(edit).collect();
            let mut expected: Vec<Option<usize>> = (0..count).map(|place| (!edited.contains(&place)).then_some(place)).collect();
            prop_assert_eq!(&origins(&before, &after), &expected);
            if gone < count {
                after.remove(gone);
                expected.remove(gone);
                prop_assert_eq!(origins(&before, &after), expected);
            }
        }
    }
}

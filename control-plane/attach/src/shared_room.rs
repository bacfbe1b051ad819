//! Room that namespaces share max-min: what one of them wants takes nothing from another one within its fair share.

use std::collections::{BTreeMap, BTreeSet};

/// Room of a size that wants are weighed by, in which namespaces have equal parts. A part that is not used is for those with more.
#[derive(Debug)]
pub struct SharedRoom<'a, K> {
    most: usize,
    most_of_namespace: usize,
    /// The index and the size of each.
    wanted: BTreeMap<K, (usize, usize)>,
    /// Those that each namespace wants, the first one first.
    namespaces: BTreeMap<&'a str, WantedByNamespace>,
}

#[derive(Debug, Default)]
struct WantedByNamespace {
    /// Indices and sizes.
    wanted: Vec<(usize, usize)>,
    known: BTreeSet<usize>,
}

impl<'a, K: Ord> SharedRoom<'a, K> {
    /// Room of which a namespace has `most_of_namespace` at most.
    pub fn new(most: usize, most_of_namespace: usize) -> Self {
        Self { most, most_of_namespace, wanted: BTreeMap::new(), namespaces: BTreeMap::new() }
    }

    /// A namespace wants something of a size, after everything that it wants before. The size of what several namespaces want is that of
    /// the first time.
    pub fn want(&mut self, key: K, namespace: &'a str, size: usize) {
        let next = self.wanted.len();
        let (index, size) = *self.wanted.entry(key).or_insert((next, size));
        let by_namespace = self.namespaces.entry(namespace).or_default();
        if by_namespace.known.insert(index) {
            by_namespace.wanted.push((index, size));
        }
    }

    /// Everything for which there is no room.
    ///
    /// Always the namespace takes its next one that has least with it, so that one is refused only when no namespace that has some has
    /// less. One that several namespaces want is taken by one of them, and costs the others nothing.
    pub fn refused(self) -> BTreeSet<K> {
        let mut has_room = vec![false; self.wanted.len()];
        let mut waiting: BTreeSet<(usize, &str)> = BTreeSet::new();
        let mut taken: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut all: usize = 0;
        let next = |namespace: &str, (position, size): (usize, usize)| {
            let (_, more) = self.namespaces.get(namespace)?.wanted.get(position)?;
            Some(size.saturating_add(*more))
        };
        waiting.extend(self.namespaces.keys().filter_map(|namespace| Some((next(namespace, (0, 0))?, *namespace))));
        while let Some((with_it, namespace)) = waiting.pop_first() {
            let (position, size) = taken.entry(namespace).or_default();
            let Some((index, more)) = self.namespaces.get(namespace).and_then(|one| one.wanted.get(*position)) else {
                continue;
            };
            if let Some(room) = has_room.get_mut(*index).filter(|room| !**room) {
                let with_all = all.saturating_add(*more);
                // Another namespace that wants it may have room where this one has none.
                if with_it <= self.most_of_namespace && with_all <= self.most {
                    (*size, all, *room) = (with_it, with_all, true);
                }
            }
            *position = position.saturating_add(1);
            waiting.extend(next(namespace, (*position, *size)).map(|with_it| (with_it, namespace)));
        }
        let is_refused = |index: usize| !has_room.get(index).copied().unwrap_or_default();
        self.wanted.into_iter().filter(|(_, (index, _))| is_refused(*index)).map(|(key, _)| key).collect()
    }
}

/// Sorts wants so that of each namespace those of the places with least come first: one place takes nothing from what the namespace has
/// at others. `of` is the place, the namespace and the size of one.
pub fn sort_by_places<T, P: Ord>(wants: &mut Vec<T>, of: impl Fn(&T) -> (P, &str, usize)) {
    let mut at_places: BTreeMap<(P, String), usize> = BTreeMap::new();
    let with_it: Vec<usize> = wants
        .iter()
        .map(|want| {
            let (place, namespace, size) = of(want);
            let sum = at_places.entry((place, namespace.to_owned())).or_default();
            *sum = sum.saturating_add(size);
            *sum
        })
        .collect();
    let mut all: Vec<(usize, T)> = with_it.into_iter().zip(wants.drain(..)).collect();
    all.sort_by_key(|(with_it, _)| *with_it);
    wants.extend(all.into_iter().map(|(_, want)| want));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];

    #[test]
    fn want_of_several_namespaces_is_taken_once() {
        let mut room = SharedRoom::new(10, 10);
        for namespace in NAMES {
            room.want("shared", namespace, 9);
        }
        room.want("own", "n5", 1);
        assert_eq!(room.refused(), BTreeSet::new());
    }

    #[test]
    fn want_that_is_beyond_one_namespaces_bound_is_anothers() {
        let mut room = SharedRoom::new(256, 64);
        room.want("a", "n0", 60);
        room.want("shared", "n0", 10);
        room.want("b", "n1", 35);
        room.want("c", "n1", 40);
        room.want("shared", "n1", 10);
        assert_eq!(room.refused(), BTreeSet::from(["c"]));
    }

    #[test]
    fn place_with_much_comes_after_one_with_little() {
        let mut wants = vec![("a", "n", 5), ("a", "n", 1), ("b", "n", 2), ("b", "n", 2), ("a", "m", 1)];
        sort_by_places(&mut wants, |(place, namespace, size)| (*place, *namespace, *size));
        assert_eq!(wants, [("a", "m", 1), ("b", "n", 2), ("b", "n", 2), ("a", "n", 5), ("a", "n", 1)]);
    }

    proptest! {
        /// Some are wanted by several namespaces.
        #[test]
        fn room_is_shared_max_min(wants in prop::collection::vec((0..6_usize, 0..30_usize, 1..40_usize), 0..60)) {
            let (most, of_namespace, mut room) = (120, 60, SharedRoom::new(120, 60));
            let mut wanted: BTreeMap<&str, BTreeSet<(usize, usize)>> = BTreeMap::new();
            let mut sizes: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            for (namespace, index, size) in wants {
                let key = if index < 10 { (NAMES.len(), index) } else { (namespace, index) };
                room.want(key, NAMES[namespace], size);
                sizes.entry(key).or_insert(size);
                wanted.entry(NAMES[namespace]).or_default().insert(key);
            }
            let refused = room.refused();
            prop_assert!(refused.iter().all(|key| sizes.contains_key(key)));
            let taken = |keys: &BTreeSet<(usize, usize)>| -> usize { keys.difference(&refused).map(|key| sizes[key]).sum() };
            prop_assert!(taken(&sizes.keys().copied().collect()) <= most);
            for (namespace, keys) in &wanted {
                let own = keys.iter().filter(|(of, _)| *of < NAMES.len()).copied().collect();
                prop_assert!(taken(&own) <= of_namespace);
                let all: usize = keys.iter().map(|key| sizes[key]).sum();
                let is_within = all <= of_namespace.min(most / wanted.len());
                prop_assert!(!is_within || keys.is_disjoint(&refused), "{}", namespace);
            }
        }
    }
}

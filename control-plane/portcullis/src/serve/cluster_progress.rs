use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use portcullis_sources::SetNumber;

/// Which versions of `UpstreamClusters` are served, by the numbers of the sets that brought them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterProgress {
    /// That of the newest set.
    number: u64,
    /// The objects of which an older version is served, because the newer one waits or is refused, and the number of the first set that
    /// may have brought a newer one.
    behind: BTreeMap<String, u64>,
    /// These numbers.
    since: BTreeSet<u64>,
}

impl ClusterProgress {
    /// Takes a set, and the names of the objects of which not the newest version is served.
    pub(super) fn follow<'a>(&mut self, SetNumber(number): SetNumber, behind: impl Iterator<Item = &'a String>) {
        let first = self.number.saturating_add(1).min(number);
        let before = std::mem::take(&mut self.behind);
        let since = |name: &String| (name.clone(), before.get(name).copied().unwrap_or(first));
        (self.number, self.behind) = (number, behind.map(since).collect());
        self.since = self.behind.values().copied().collect();
    }

    /// The objects of which something older is served than the version in a set, and nothing older than that in `after`.
    pub(super) fn behind(&self, after: Option<u64>, SetNumber(of): SetNumber) -> BTreeSet<String> {
        let is_in = |since: u64| since <= of && after.is_none_or(|after| since > after);
        self.behind.iter().filter(|(_, since)| is_in(**since)).map(|(name, _)| name.clone()).collect()
    }

    /// Whether there are any, or may be.
    pub(super) fn has_behind(&self, after: Option<u64>, of: SetNumber) -> bool {
        let SetNumber(last) = of;
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        // A range that ends before it begins is none.
        let has_any = || {
            after.is_none_or(|after| after < last) && self.since.range((first, Bound::Included(last))).next().is_some()
        };
        !self.is_of(of) || has_any()
    }

    /// Whether a set was taken.
    pub(super) fn is_of(&self, SetNumber(of): SetNumber) -> bool {
        self.number >= of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_is_behind_from_the_first_set_that_may_have_edited_it() {
        let mut progress = ClusterProgress::default();
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let has = |progress: &ClusterProgress, name: &str| {
            let is_served = |of| progress.is_of(of) && !progress.behind(None, of).contains(name);
            (0..9).map(|of| is_served(SetNumber(of))).collect::<Vec<_>>()
        };
        progress.follow(SetNumber(3), [&a].into_iter());
        let until = |number: usize| (0..9).map(|of| of < number).collect::<Vec<_>>();
        assert_eq!((has(&progress, "a"), has(&progress, "b")), (until(1), until(4)));
        // One set is translated twice, and of the second time more is refused.
        progress.follow(SetNumber(3), [&a, &b].into_iter());
        assert_eq!(has(&progress, "b"), until(3));
        progress.follow(SetNumber(7), [&a].into_iter());
        assert_eq!((has(&progress, "a"), has(&progress, "b")), (until(1), until(8)));
        progress.follow(SetNumber(8), [&b].into_iter());
        assert_eq!((has(&progress, "a"), has(&progress, "b")), (until(9), until(8)));
        let later = [6, 7, 8].map(|after| progress.has_behind(Some(after), SetNumber(8)));
        assert_eq!(later, [true, true, false], "it waits for the eighth set");
        assert!(progress.has_behind(Some(8), SetNumber(9)), "the ninth is not translated");
    }
}

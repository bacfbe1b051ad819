/// A set of atoms of one axis: ranges without their ends, ascending, apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AtomSet(Vec<(u32, u32)>);

impl AtomSet {
    pub(super) const EMPTY: AtomSet = AtomSet(Vec::new());

    /// All atoms from the first on.
    pub(super) fn first(count: u32) -> Self {
        AtomSet::range(0, count)
    }

    pub(super) fn range(start: u32, end: u32) -> Self {
        AtomSet(if start < end { vec![(start, end)] } else { Vec::new() })
    }

    pub(super) fn one(atom: u32) -> Self {
        AtomSet::range(atom, atom.saturating_add(1))
    }

    /// The union of ranges in any order.
    pub(super) fn of_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.retain(|(start, end)| start < end);
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        AtomSet(joined)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// An atom of it.
    pub(super) fn any(&self) -> Option<u32> {
        self.0.first().map(|(start, _)| *start)
    }

    /// How many atoms it has.
    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    pub(super) fn intersects(&self, other: &Self) -> bool {
        match (self.0.as_slice(), other.0.as_slice()) {
            ([(start, end)], [(first, last)]) => start < last && first < end,
            (few, many) => {
                let (few, many) = if few.len() <= many.len() { (few, many) } else { (many, few) };
                few.iter().any(|(start, end)| {
                    let at = many.partition_point(|(_, last)| last <= start);
                    many.get(at).is_some_and(|(first, _)| first < end)
                })
            }
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some((start, end)), Some((first, last))) = (left.peek(), right.peek()) {
            let (low, high) = (*start.max(first), *end.min(last));
            if low < high {
                both.push((low, high));
            }
            if end <= last {
                left.next()
            } else {
                right.next()
            };
        }
        AtomSet(both)
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        for (start, end) in &self.0 {
            let mut from = *start;
            let at = other.0.partition_point(|(_, last)| last <= start);
            for (first, last) in other.0.iter().skip(at).take_while(|(first, _)| first < end) {
                if from < *first {
                    rest.push((from, *first));
                }
                from = from.max(*last);
            }
            if from < *end {
                rest.push((from, *end));
            }
        }
        AtomSet(rest)
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|(start, end)| {
            let behind = other.0.partition_point(|(first, _)| first <= start);
            behind.checked_sub(1).and_then(|at| other.0.get(at)).is_some_and(|(_, last)| end <= last)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::AtomSet;
    use proptest::prelude::*;

    fn set(bits: u16) -> AtomSet {
        let one = |at: u32| (bits >> at & 1 == 1).then(|| (at, at + 1));
        AtomSet::of_ranges((0..16).filter_map(one).collect())
    }

    proptest! {
        #[test]
        fn sets_are_those_of_their_bits(left: u16, right: u16) {
            let (a, b) = (set(left), set(right));
            prop_assert_eq!(a.intersection(&b), set(left & right));
            prop_assert_eq!(a.without(&b), set(left & !right));
            prop_assert_eq!(a.intersects(&b), left & right != 0);
            prop_assert_eq!(a.is_within(&b), left & !right == 0);
            prop_assert_eq!(a.len(), left.count_ones());
            prop_assert_eq!(a.any(), (left != 0).then(|| left.trailing_zeros()));
        }
    }
}

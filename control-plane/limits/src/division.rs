//! Max-min fairness: who wants little gets it, and those who want more share the rest evenly.

/// Whether units that no claim needs are divided as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// They are, evenly.
    Divided,
    /// They are kept.
    Kept,
}

/// Claims of units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitClaims<'a> {
    pub(crate) wanted: &'a [u32],
    /// No claim is of less.
    pub(crate) floor: u32,
    /// The position from which on units that cannot be halved are given away.
    pub(crate) first: usize,
}

impl UnitClaims<'_> {
    /// The units of the claim at `position` if `total` units are divided among all claims. The units of all positions together are
    /// never more than `total`. `near` is the level that was found the last time: the answer is the same with any, and sooner
    /// there with the right one.
    pub(crate) fn units_of(self, position: usize, total: u32, rest: Rest, near: &mut u32) -> u32 {
        let Some(own) = self.wanted.get(position).map(|wanted| self.claim(*wanted)) else { return 0 };
        let (sum, _) = self.up_to(u32::MAX);
        let Some(left) = u64::from(total).checked_sub(sum) else {
            let (level, odd) = self.level(total, *near);
            *near = level;
            return self.capped(position, own, level, odd);
        };
        match rest {
            Rest::Kept => own,
            Rest::Divided => own.saturating_add(self.even_part(position, left)),
        }
    }

    fn claim(self, wanted: u32) -> u32 {
        wanted.max(self.floor)
    }

    /// The sum of the claims that are not above a level, and the number of the others.
    fn up_to(self, level: u32) -> (u64, u64) {
        self.wanted.iter().fold((0_u64, 0_u64), |(sum, above), wanted| {
            let claim = self.claim(*wanted);
            let is_above = claim > level;
            let counted = if is_above { 0 } else { u64::from(claim) };
            (sum.wrapping_add(counted), above.wrapping_add(u64::from(is_above)))
        })
    }

    /// The level at which all is given away if no claim gets more, and the units that are left then. Claims are more than there is.
    ///
    /// Each round goes from a level to the one that the claims above it would share. It halves what is left or the number of claims
    /// above, so that there are some forty rounds at most, and seldom more than two.
    fn level(self, total: u32, near: u32) -> (u32, u64) {
        let total = u64::from(total);
        let even = total.checked_div(self.wanted.len() as u64).unwrap_or_default();
        let mut level = u32::try_from(even).unwrap_or(u32::MAX).max(near);
        loop {
            let (sum, above) = self.up_to(level);
            let left = total.saturating_sub(sum);
            let next = u32::try_from(left.checked_div(above).unwrap_or_default()).unwrap_or(u32::MAX);
            if next == level {
                return (level, left.checked_rem(above).unwrap_or_default());
            }
            // Above the level that is looked for there is no way up to it.
            level = if next < level { u32::try_from(even).unwrap_or(u32::MAX) } else { next };
        }
    }

    /// Units that cannot be halved go to the first ones.
    fn capped(self, position: usize, own: u32, level: u32, odd: u64) -> u32 {
        if own <= level {
            return own;
        }
        let is_above = |wanted: &&u32| self.claim(**wanted) > level;
        let count = |claims: Option<&[u32]>| claims.into_iter().flatten().filter(is_above).count();
        let before = match position.checked_sub(self.first) {
            Some(_) => count(self.wanted.get(self.first..position)),
            None => count(self.wanted.get(self.first..)).saturating_add(count(self.wanted.get(..position))),
        };
        level.saturating_add(u32::from((before as u64) < odd))
    }

    /// The part of what no claim needs.
    fn even_part(self, position: usize, units: u64) -> u32 {
        let parts = self.wanted.len();
        let rank =
            position.checked_sub(self.first).unwrap_or(position.saturating_add(parts).saturating_sub(self.first));
        let (each, odd) = (units.checked_div(parts as u64), units.checked_rem(parts as u64));
        let each = u32::try_from(each.unwrap_or_default()).unwrap_or(u32::MAX);
        each.saturating_add(u32::from((rank as u64) < odd.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(wanted: &[u32], total: u32, rest: Rest) -> Vec<u32> {
        let claims = UnitClaims { wanted, floor: 0, first: 0 };
        (0..wanted.len()).map(|position| claims.units_of(position, total, rest, &mut 0)).collect()
    }

    /// The same by sorting, with the first one in front.
    fn by_sorting(UnitClaims { wanted, floor, first }: UnitClaims<'_>, total: u32, rest: Rest) -> Vec<u32> {
        let mut claims: Vec<u32> = wanted.iter().map(|one| *one.max(&floor)).collect();
        claims.rotate_left(first);
        let mut order: Vec<usize> = (0..claims.len()).collect();
        order.sort_by_key(|at| claims[*at]);
        let (mut parts, mut left) = (claims.clone(), u64::from(total));
        for (taken, at) in order.iter().enumerate() {
            let claimants = (order.len() - taken) as u64;
            if u64::from(claims[*at]) * claimants > left {
                let mut above = order[taken..].to_vec();
                above.sort_unstable();
                for (rank, at) in (0..).zip(above) {
                    parts[at] = (left / claimants) as u32 + u32::from(rank < left % claimants);
                }
                left = 0;
                break;
            }
            left -= u64::from(claims[*at]);
        }
        if rest == Rest::Divided {
            let count = claims.len() as u64;
            let each = |rank: u64| (left / count) as u32 + u32::from(rank < left % count);
            (0..).zip(&mut parts).for_each(|(rank, part)| *part = part.saturating_add(each(rank)));
        }
        parts.rotate_right(first);
        parts
    }

    #[test]
    fn claims_are_met_up_to_a_level() {
        let rows: [(&[u32], u32, Rest, &[u32]); 8] = [
            (&[], 10, Rest::Divided, &[]),
            (&[0], 10, Rest::Divided, &[10]),
            (&[0], 10, Rest::Kept, &[0]),
            (&[1, 0, 0], 10, Rest::Divided, &[4, 3, 3]),
            (&[5, 5], 10, Rest::Divided, &[5, 5]),
            (&[100, 2, 100], 11, Rest::Divided, &[5, 2, 4]),
            (&[100, 2, 100], 11, Rest::Kept, &[5, 2, 4]),
            (&[9, 9, 9], 0, Rest::Divided, &[0, 0, 0]),
        ];
        for (claims, total, rest, wanted) in rows {
            assert_eq!(all(claims, total, rest), wanted, "{claims:?} of {total}, {rest:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_never_more_than_the_whole_and_nobody_envies(
            claims in proptest::collection::vec(prop_oneof![0..20_u32, any::<u32>()], 1..12),
            total in prop_oneof![0..100_u32, any::<u32>()],
        ) {
            for rest in [Rest::Divided, Rest::Kept] {
                let parts = all(&claims, total, rest);
                let sum: u64 = parts.iter().map(|part| u64::from(*part)).sum();
                prop_assert!(sum <= u64::from(total), "{parts:?}");
                let claimed: u64 = claims.iter().map(|claim| u64::from(*claim)).sum();
                prop_assert!(sum >= claimed.min(u64::from(total)), "units that are wanted are left over: {parts:?}");
                for (part, claim) in parts.iter().zip(&claims) {
                    let most = parts.iter().max().copied().unwrap_or_default();
                    prop_assert!(part >= claim || part.saturating_add(1) >= most, "{parts:?} of {claims:?}");
                }
            }
        }

        #[test]
        fn division_is_the_one_by_sorting(
            wanted in proptest::collection::vec(prop_oneof![0..20_u32, 0..2_000_u32, any::<u32>()], 1..40),
            floor in prop_oneof![Just(0_u32), 1..9_u32],
            first in any::<prop::sample::Index>(),
            total in prop_oneof![0..2_000_u32, any::<u32>()],
            mut near in prop_oneof![0..300_u32, any::<u32>()],
        ) {
            let claims = UnitClaims { wanted: &wanted, floor, first: first.index(wanted.len()) };
            for rest in [Rest::Divided, Rest::Kept] {
                let parts = (0..wanted.len()).map(|position| claims.units_of(position, total, rest, &mut near));
                prop_assert_eq!(parts.collect::<Vec<_>>(), by_sorting(claims, total, rest));
            }
        }
    }
}

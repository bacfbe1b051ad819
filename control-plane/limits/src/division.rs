//! Max-min fairness: who wants little gets it, and those who want more share the rest evenly.

/// Whether units that no claim needs are divided as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// They are, evenly.
    Divided,
    /// They are kept.
    Kept,
}

/// The units of the claim at `position` if `total` units are divided among all claims. The units of all positions together are
/// never more than `total`.
pub(crate) fn units_of(claims: &[u32], position: usize, total: u32, rest: Rest) -> u32 {
    let Some(own) = claims.get(position).copied() else { return 0 };
    let sum: u64 = claims.iter().map(|claim| u64::from(*claim)).sum();
    let Some(left) = u64::from(total).checked_sub(sum) else { return capped(claims, position, own, total) };
    match rest {
        Rest::Kept => own,
        Rest::Divided => own.saturating_add(even_part(left, claims.len(), position)),
    }
}

/// Claims are more than there is: each gets at most a level, at which all is given away.
fn capped(claims: &[u32], position: usize, own: u32, total: u32) -> u32 {
    let mut sorted = claims.to_vec();
    sorted.sort_unstable();
    let mut left = u64::from(total);
    for (taken, claim) in sorted.iter().enumerate() {
        let claimants = sorted.len().saturating_sub(taken);
        if u64::from(*claim).saturating_mul(claimants as u64) > left {
            let level = left.checked_div(claimants as u64).unwrap_or_default();
            let level = u32::try_from(level).unwrap_or(u32::MAX);
            if own <= level {
                return own;
            }
            // Units that cannot be halved go to the first ones.
            let before = claims.iter().take(position).filter(|claim| **claim > level).count();
            let odd = left.checked_rem(claimants as u64).unwrap_or_default();
            return level.saturating_add(u32::from((before as u64) < odd));
        }
        left = left.saturating_sub(u64::from(*claim));
    }
    own
}

fn even_part(units: u64, parts: usize, position: usize) -> u32 {
    let (each, odd) = (units.checked_div(parts as u64), units.checked_rem(parts as u64));
    let each = u32::try_from(each.unwrap_or_default()).unwrap_or(u32::MAX);
    each.saturating_add(u32::from((position as u64) < odd.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(claims: &[u32], total: u32, rest: Rest) -> Vec<u32> {
        (0..claims.len()).map(|position| units_of(claims, position, total, rest)).collect()
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
    }
}

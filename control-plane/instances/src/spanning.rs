use std::collections::BTreeMap;

use crate::holder::MemberHolder;
use crate::member::MemberName;
use crate::settle::Settlement;

/// Targets that belong to several owners: limits would be counted in each of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its targets belong to several instances: {first_target} to {first}, {second_target} to {second}; its limits would count in each: use one object for each"
)]
pub struct SpanningTargets {
    /// The first owner, in the order of their names.
    pub first: MemberHolder,
    /// The first of its targets, by name.
    pub first_target: MemberName,
    /// The second owner.
    pub second: MemberHolder,
    /// The first of its targets, by name.
    pub second_target: MemberName,
}

/// The one owner of all targets of a policy or a route; `None` if none of them is known or has one. On the way from one owner to another
/// a target counts as the next one's.
///
/// # Errors
/// They have several; two are named, the same ones in whichever order targets and instances came.
pub fn common_holder<'a>(
    settled: &'a Settlement,
    targets: impl IntoIterator<Item = &'a MemberName>,
) -> Result<Option<&'a MemberHolder>, SpanningTargets> {
    let mut holders: BTreeMap<&MemberHolder, &MemberName> = BTreeMap::new();
    for target in targets {
        let Some(owner) = settled.owners.get(target) else { continue };
        // Nothing counts there, and it may be a matter of the moment whose it is.
        if *owner.settled() == MemberHolder::Nobody {
            continue;
        }
        let first = holders.entry(owner.settled()).or_insert(target);
        *first = (*first).min(target);
    }
    let mut holders = holders.into_iter();
    match (holders.next(), holders.next()) {
        (Some((first, first_target)), Some((second, second_target))) => Err(SpanningTargets {
            first: first.clone(),
            first_target: first_target.clone(),
            second: second.clone(),
            second_target: second_target.clone(),
        }),
        (first, _) => Ok(first.map(|(holder, _)| holder)),
    }
}

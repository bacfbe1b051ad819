use super::atoms::AtomSet;
use super::region::{Axis, Region};
use super::space::Space;

/// A point of a region that a person takes for an ordinary request, where there is one: the found one with as many ordinary values as the
/// others leave.
pub(super) fn natural(
    space: &Space,
    region: &Region,
    found: &Region,
    others: &[&Region],
    unions: &[&[Region]],
) -> Region {
    let mut point = found.clone();
    for axis in Axis::ALL {
        point.set(axis, point.axis(axis).any().map_or(AtomSet::EMPTY, AtomSet::one));
    }
    let is_good = |point: &Region| {
        !others.iter().any(|other| holds(other, point))
            && unions.iter().all(|union| union.iter().any(|one| holds(one, point)))
    };
    for (axis, (start, end)) in ordinary(space) {
        let atoms = AtomSet::range(start, end);
        if !atoms.is_empty() && atoms.is_within(region.axis(axis)) {
            let mut other = point.clone();
            other.set(axis, atoms);
            if is_good(&other) {
                point = other;
            }
        }
    }
    point
}

/// Whether a point is in a region; its user is a member of no group that is not named.
fn holds(region: &Region, point: &Region) -> bool {
    Axis::ALL.into_iter().all(|axis| point.axis(axis).is_within(region.axis(axis)))
        && region.groups().iter().all(|(group, is_member)| point.membership(*group).unwrap_or(false) == *is_member)
}

/// Ordinary values, the most ordinary last.
fn ordinary(space: &Space) -> Vec<(Axis, (u32, u32))> {
    let verb = |verb: &str| (Axis::Verb, space.verbs.text_range(verb));
    vec![
        (Axis::Resource, space.resources.pair_range("pods", "")),
        (Axis::ApiGroup, space.api_groups.text_range("apps")),
        (Axis::ApiGroup, space.api_groups.text_range("")),
        (Axis::ApiVersion, space.api_versions.text_range("v1")),
        (Axis::Namespace, space.namespaces.text_range("default")),
        (Axis::Name, space.names.text_range("")),
        (Axis::Path, space.paths.text_range("/version")),
        (Axis::UserAgent, space.user_agents.text_range("kubectl")),
        verb("create"),
        verb("list"),
        verb("get"),
    ]
}

//! The search for a request in one region and in none of others.

use std::rc::Rc;

use super::atoms::AtomSet;
use super::region::{Axis, OpenPart, Region};

/// The result of a search.
#[derive(Debug)]
pub(super) enum SearchResult {
    /// All requests of this region are such.
    Region(Box<Region>),
    Nothing,
    /// The steps came to an end.
    Undecided,
}

/// Steps that may still be taken: comparisons of two regions.
#[derive(Debug)]
pub(super) struct Steps(pub(super) u64);

impl Steps {
    /// Takes some; whether there were as many.
    pub(super) fn take(&mut self, steps: usize) -> bool {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let is_left = self.0 >= steps;
        self.0 = self.0.saturating_sub(steps);
        is_left
    }
}

/// The most regions that one search looks into; each may be cut in several.
const MAX_NODES: usize = 20_000;

/// Looks for requests of `region` that are in none of `others`, and in one of each of `unions`. `usual` are the atoms of values that no
/// rule names: requests of such values are in few of the others, so these are tried first.
pub(super) fn find(
    region: &Region,
    others: &[&Region],
    unions: &[&[Region]],
    usual: &[AtomSet; Axis::COUNT],
    steps: &mut Steps,
) -> SearchResult {
    let Some((union, unions)) = unions.split_first() else {
        let mut narrow = region.clone();
        for (axis, atoms) in Axis::ALL.into_iter().zip(usual) {
            let both = narrow.axis(axis).intersection(atoms);
            if !both.is_empty() {
                narrow.set(axis, both);
            }
        }
        return match cut(narrow, others, steps) {
            found @ SearchResult::Region(_) => found,
            _ => cut(region.clone(), others, steps),
        };
    };
    let mut is_undecided = false;
    for one in *union {
        let Some(both) = region.intersection(one) else { continue };
        match find(&both, others, unions, usual, steps) {
            SearchResult::Nothing => {}
            SearchResult::Undecided => is_undecided = true,
            found @ SearchResult::Region(_) => return found,
        }
    }
    if is_undecided { SearchResult::Undecided } else { SearchResult::Nothing }
}

/// Takes the others out of a region one by one. The rest of a region without another one are several regions, one for each
/// condition that is not met.
fn cut(region: Region, others: &[&Region], steps: &mut Steps) -> SearchResult {
    let mut open: Vec<(Region, Rc<Vec<&Region>>)> = vec![(region, Rc::new(others.to_vec()))];
    for _ in 0..MAX_NODES {
        let Some((mut region, others)) = open.pop() else { return SearchResult::Nothing };
        let Ok(left) = reduce(&mut region, others, steps) else { return SearchResult::Undecided };
        let Some(left) = left else { continue };
        let hardest = left.iter().map(|other| (*other, region.open_parts(other))).min_by_key(|(_, parts)| parts.len());
        let Some((other, mut parts)) = hardest else { return SearchResult::Region(Box::new(region)) };
        if !steps.take(left.len()) {
            return SearchResult::Undecided;
        }
        // The first one is looked into first: the one that takes away least.
        parts.sort_by_key(|part| cost(other, *part));
        let left = Rc::new(left);
        let mut met = region;
        let mut children = Vec::with_capacity(parts.len());
        for part in parts {
            let mut unmet = met.clone();
            unmet.exclude(other, part);
            children.push((unmet, Rc::clone(&left)));
            met.demand(other, part);
        }
        open.extend(children.into_iter().rev());
    }
    SearchResult::Undecided
}

/// How much a condition takes away when it must not be met.
fn cost(other: &Region, part: OpenPart) -> u32 {
    match part {
        // No user is a member of most groups.
        OpenPart::Group((_, is_member)) => {
            if is_member {
                0
            } else {
                u32::MAX
            }
        }
        OpenPart::Axis(axis) => other.axis(axis).len(),
    }
}

/// Takes out of the region what the others leave no choice about. `None` if nothing is left; otherwise the others with which there is
/// a choice.
fn reduce<'r>(
    region: &mut Region,
    others: Rc<Vec<&'r Region>>,
    steps: &mut Steps,
) -> Result<Option<Vec<&'r Region>>, ()> {
    let mut left: Vec<&Region> = others.to_vec();
    loop {
        if !steps.take(left.len()) {
            return Err(());
        }
        let mut is_changed = false;
        let mut is_covered = false;
        left.retain(|other| {
            if is_covered || !region.intersects(other) {
                return false;
            }
            match region.open_parts(other).as_slice() {
                [] => is_covered = true,
                [only] => {
                    region.exclude(other, *only);
                    is_changed = true;
                    return false;
                }
                _ => {}
            }
            true
        });
        if is_covered {
            return Ok(None);
        }
        if !is_changed {
            return Ok(Some(left));
        }
    }
}

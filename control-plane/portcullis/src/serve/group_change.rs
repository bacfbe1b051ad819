use std::collections::HashSet;
use std::sync::Arc;

use portcullis_translate::{Resource, ResourceGroup};

use super::by_place::ByPlace;

/// The groups of the last translation.
#[derive(Debug, Default)]
pub(super) struct KnownGroups(ByPlace<[Arc<Resource>], ()>);

/// The groups that one translation has and the other has not. An object that is translated anew is among both.
#[derive(Debug, Default)]
pub(super) struct GroupChange {
    gone: Vec<ResourceGroup>,
    new: Vec<ResourceGroup>,
}

impl KnownGroups {
    /// Takes the groups of a newer translation: a translator returns the same allocation for what did not change.
    pub(super) fn follow(&mut self, groups: &[ResourceGroup]) -> GroupChange {
        let change = self.0.follow(groups, |_, _| ());
        let new = change.new.into_iter().filter_map(|at| groups.get(at).map(Arc::clone)).collect();
        let mut gone: Vec<ResourceGroup> = change.gone.into_iter().map(|(group, ())| group).collect();
        // One that was there twice may be there still.
        let mut addresses: Vec<usize> = gone.iter().map(address).collect();
        addresses.sort_unstable();
        let is_gone = |one: &usize| addresses.binary_search(one).is_ok();
        let there: HashSet<usize> = groups.iter().map(address).filter(is_gone).collect();
        gone.retain(|group| !there.contains(&address(group)));
        GroupChange { gone, new }
    }
}

fn address(group: &ResourceGroup) -> usize {
    group.as_ptr().addr()
}

impl GroupChange {
    /// The resources that the newer translation has no longer, or in other groups.
    pub(super) fn gone(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.gone.iter().flat_map(|group| group.iter())
    }

    /// The resources of groups that are new.
    pub(super) fn made(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.new.iter().flat_map(|group| group.iter())
    }
}

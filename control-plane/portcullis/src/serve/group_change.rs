use std::collections::HashMap;
use std::sync::Arc;

use portcullis_translate::{Resource, ResourceGroup};

/// The groups of the last translation, by address. Each is kept, so that no other group gets its address.
#[derive(Debug, Default)]
pub(super) struct KnownGroups(HashMap<usize, ResourceGroup>);

/// The groups that one translation has and the other has not. An object that is translated anew is among both.
#[derive(Debug, Default)]
pub(super) struct GroupChange {
    gone: Vec<ResourceGroup>,
    new: Vec<ResourceGroup>,
}

impl KnownGroups {
    /// Takes the groups of a newer translation: a translator returns the same allocation for what did not change.
    pub(super) fn follow(&mut self, groups: &[ResourceGroup]) -> GroupChange {
        let mut before = std::mem::take(&mut self.0);
        self.0.reserve(groups.len());
        let mut change = GroupChange::default();
        for group in groups {
            let address = group.as_ptr().addr();
            if before.remove(&address).is_none() {
                change.new.push(Arc::clone(group));
            }
            self.0.insert(address, Arc::clone(group));
        }
        change.gone = before.into_values().collect();
        change
    }
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

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ObjectKey, StoredStatus, WatchedKind};

/// The stored statuses of objects, by kind. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredStatuses {
    by_kind: BTreeMap<WatchedKind, Arc<BTreeMap<ObjectKey, Arc<StoredStatus>>>>,
}

impl StoredStatuses {
    /// Takes the statuses of all objects of a kind in place of those before.
    pub(super) fn set(&mut self, kind: WatchedKind, statuses: BTreeMap<ObjectKey, Arc<StoredStatus>>) {
        self.by_kind.insert(kind, Arc::new(statuses));
    }

    /// Whether objects of a kind were listed, or are known not to be there.
    pub fn is_listed(&self, kind: WatchedKind) -> bool {
        self.by_kind.contains_key(&kind)
    }

    /// Whether no status of a kind of the Gateway API is other than in an earlier copy. A statement about copies: equal statuses
    /// that came apart count as others.
    pub fn shares_gateway_api(&self, other: &Self) -> bool {
        self.shares(other, &WatchedKind::OF_GATEWAY_API)
    }

    /// The same of the kinds that policies need.
    pub fn shares_policies(&self, other: &Self) -> bool {
        self.shares(other, &WatchedKind::OF_POLICIES)
    }

    fn shares(&self, other: &Self, kinds: &[WatchedKind]) -> bool {
        kinds.iter().all(|kind| match (self.by_kind.get(kind), other.by_kind.get(kind)) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        })
    }

    /// The status of an object.
    pub fn get(&self, key: &ObjectKey) -> Option<&StoredStatus> {
        self.by_kind.get(&key.kind)?.get(key).map(Arc::as_ref)
    }

    /// The objects of a kind, in the order of names.
    pub fn of(&self, kind: WatchedKind) -> impl Iterator<Item = (&ObjectKey, &StoredStatus)> {
        self.by_kind.get(&kind).into_iter().flat_map(|all| all.iter().map(|(key, stored)| (key, stored.as_ref())))
    }
}

impl FromIterator<(ObjectKey, StoredStatus)> for StoredStatuses {
    /// Of the kinds that are among the keys.
    fn from_iter<I: IntoIterator<Item = (ObjectKey, StoredStatus)>>(all: I) -> Self {
        let mut by_kind: BTreeMap<WatchedKind, BTreeMap<_, _>> = BTreeMap::new();
        for (key, stored) in all {
            by_kind.entry(key.kind).or_default().insert(key, Arc::new(stored));
        }
        Self { by_kind: by_kind.into_iter().map(|(kind, all)| (kind, Arc::new(all))).collect() }
    }
}

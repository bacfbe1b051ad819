use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ObjectKey, StoredStatus, WatchedKind};

/// The stored statuses of objects, by kind. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredStatuses {
    by_kind: BTreeMap<WatchedKind, Arc<StatusByKey>>,
}

/// The statuses of objects of one kind. One that is as it was is the same allocation.
pub(super) type StatusByKey = BTreeMap<Arc<ObjectKey>, Arc<StoredStatus>>;

impl StoredStatuses {
    /// Takes the statuses of all objects of a kind in place of those before.
    pub(super) fn set(&mut self, kind: WatchedKind, statuses: StatusByKey) {
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

    /// The keys of objects of a kind whose status is another one than in an earlier copy, or in one of the two only. A statement about
    /// copies: equal statuses that came apart count as others.
    pub fn changed_keys<'a>(&'a self, earlier: &'a Self, kind: WatchedKind) -> Vec<&'a ObjectKey> {
        if self.shares(earlier, &[kind]) {
            return Vec::new();
        }
        let all = |one: &'a Self| one.by_kind.get(&kind).into_iter().flat_map(|all| all.iter());
        let (mut before, mut after) = (all(earlier).peekable(), all(self).peekable());
        let mut changed = Vec::new();
        // Both are sorted by key.
        loop {
            match (before.peek().copied(), after.peek().copied()) {
                (Some((gone, _)), next) if next.is_none_or(|(key, _)| gone < key) => {
                    changed.extend(before.next().map(|_| gone.as_ref()));
                }
                (next, Some((new, _))) if next.is_none_or(|(key, _)| new < key) => {
                    changed.extend(after.next().map(|_| new.as_ref()));
                }
                (Some((_, known)), Some((key, status))) => {
                    before.next();
                    after.next();
                    changed.extend((!Arc::ptr_eq(known, status)).then_some(key.as_ref()));
                }
                (None, _) | (_, None) => return changed,
            }
        }
    }

    /// The status of an object.
    pub fn get(&self, key: &ObjectKey) -> Option<&StoredStatus> {
        self.by_kind.get(&key.kind)?.get(key).map(Arc::as_ref)
    }

    /// The objects of a kind, in the order of names.
    pub fn of(&self, kind: WatchedKind) -> impl Iterator<Item = (&ObjectKey, &StoredStatus)> {
        self.by_kind
            .get(&kind)
            .into_iter()
            .flat_map(|all| all.iter().map(|(key, stored)| (key.as_ref(), stored.as_ref())))
    }
}

impl FromIterator<(ObjectKey, StoredStatus)> for StoredStatuses {
    /// Of the kinds that are among the keys.
    fn from_iter<I: IntoIterator<Item = (ObjectKey, StoredStatus)>>(all: I) -> Self {
        let mut by_kind: BTreeMap<WatchedKind, StatusByKey> = BTreeMap::new();
        for (key, stored) in all {
            by_kind.entry(key.kind).or_default().insert(Arc::new(key), Arc::new(stored));
        }
        Self { by_kind: by_kind.into_iter().map(|(kind, all)| (kind, Arc::new(all))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_keys_are_those_of_other_allocations() {
        let kind = WatchedKind::Instance;
        let key = |name: &str| Arc::new(ObjectKey::cluster_scoped(kind, name));
        let one = |name: &str| (key(name), Arc::new(StoredStatus::default()));
        let all: StatusByKey = ["a", "b", "c", "d"].map(one).into();
        let mut before = StoredStatuses::default();
        before.set(kind, all.clone());
        let names = |after: StatusByKey| {
            let mut newer = before.clone();
            newer.set(kind, after);
            let changed = newer.changed_keys(&before, kind).into_iter().map(|key| key.name.clone()).collect::<Vec<_>>();
            let back = before.changed_keys(&newer, kind).into_iter().map(|key| key.name.clone());
            assert_eq!(changed, back.collect::<Vec<_>>());
            changed
        };
        assert_eq!(names(all.clone()), [""; 0]);
        let mut other = all.clone();
        other.extend(["b", "bb", "e"].map(one));
        other.remove(&key("d"));
        assert_eq!(names(other), ["b", "bb", "d", "e"]);
        assert_eq!(names(StatusByKey::new()), ["a", "b", "c", "d"]);
        assert!(before.changed_keys(&StoredStatuses::default(), WatchedKind::UpstreamCluster).is_empty());
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::WatchedKind;

/// The objects of the Gateway API, with those that it needs beside them. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayApiObjects {
    by_kind: BTreeMap<WatchedKind, Arc<[Arc<Value>]>>,
    /// The kinds of which some are left out.
    cut: BTreeSet<WatchedKind>,
}

impl GatewayApiObjects {
    /// Takes the objects of a kind in place of those before; `is_cut`: more are there.
    pub(super) fn set(&mut self, kind: WatchedKind, documents: Arc<[Arc<Value>]>, is_cut: bool) {
        self.by_kind.insert(kind, documents);
        if is_cut {
            self.cut.insert(kind);
        } else {
            self.cut.remove(&kind);
        }
    }

    /// Whether objects of each kind were listed, or the kind is known not to be there. Without it a permission may be missing.
    pub fn is_listed(&self) -> bool {
        WatchedKind::OF_GATEWAY_API.iter().all(|kind| self.by_kind.contains_key(kind))
    }

    /// The same of the kinds that policies need.
    pub fn lists_policies(&self) -> bool {
        WatchedKind::OF_POLICIES.iter().all(|kind| self.by_kind.contains_key(kind))
    }

    /// Policies as a source lists them: of these kinds, and of the others none.
    pub fn of_policies(listed: impl IntoIterator<Item = (WatchedKind, Vec<Arc<Value>>)>) -> Self {
        let none = WatchedKind::OF_POLICIES.map(|kind| (kind, Vec::new()));
        Self::of_kinds(none.into_iter().chain(listed))
    }

    /// Objects as a source lists them: of these kinds, and of the others none.
    pub fn of_kinds(listed: impl IntoIterator<Item = (WatchedKind, Vec<Arc<Value>>)>) -> Self {
        let mut objects = Self::default();
        for (kind, documents) in listed {
            objects.set(kind, documents.into(), false);
        }
        objects
    }

    /// The objects of a kind.
    pub fn of(&self, kind: WatchedKind) -> impl Iterator<Item = &Arc<Value>> {
        self.by_kind.get(&kind).into_iter().flat_map(|documents| documents.iter())
    }

    /// Whether all objects of a kind are here.
    pub fn has_all(&self, kind: WatchedKind) -> bool {
        !self.cut.contains(&kind)
    }

    /// The objects of the Gateway API's own kinds.
    pub fn of_gateway_api(&self) -> impl Iterator<Item = &Arc<Value>> {
        let is_own = |kind: WatchedKind| !kind.is_referred_to() && kind != WatchedKind::KubernetesUpstream;
        let own = self.by_kind.iter().filter(move |(kind, _)| is_own(**kind));
        own.flat_map(|(_, documents)| documents.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_listed_when_each_kind_is() {
        let mut objects = GatewayApiObjects::default();
        for kind in WatchedKind::OF_GATEWAY_API {
            assert!(!objects.is_listed());
            objects.set(kind, [Arc::new(Value::Null)].into(), kind == WatchedKind::Service);
        }
        assert!(objects.is_listed() && objects.has_all(WatchedKind::Namespace));
        assert!(!objects.has_all(WatchedKind::Service));
        assert_eq!((objects.of_gateway_api().count(), objects.of(WatchedKind::Service).count()), (5, 1));
        objects.set(WatchedKind::Service, [].into(), false);
        assert!(objects.has_all(WatchedKind::Service));
    }

    #[test]
    fn policies_are_listed_when_each_kind_is() {
        let mut objects = GatewayApiObjects::default();
        for kind in WatchedKind::OF_POLICIES {
            assert!(!objects.lists_policies());
            objects.set(kind, [].into(), false);
        }
        assert!(objects.lists_policies() && !objects.is_listed());
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::WatchedKind;

/// The objects of the Gateway API, with those that it needs beside them. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayApiObjects {
    by_kind: BTreeMap<WatchedKind, Arc<[Arc<Value>]>>,
    /// The kinds of which some are left out, with the namespaces of these; of cluster-scoped ones the name is empty.
    cut: BTreeMap<WatchedKind, BTreeSet<String>>,
}

impl GatewayApiObjects {
    /// Takes the objects of a kind in place of those before; `cut`: the namespaces of which more are there.
    pub(super) fn set(&mut self, kind: WatchedKind, documents: Arc<[Arc<Value>]>, cut: BTreeSet<String>) {
        self.by_kind.insert(kind, documents);
        if cut.is_empty() {
            self.cut.remove(&kind);
        } else {
            self.cut.insert(kind, cut);
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
            objects.set(kind, documents.into(), BTreeSet::new());
        }
        objects
    }

    /// The objects of a kind.
    pub fn of(&self, kind: WatchedKind) -> impl Iterator<Item = &Arc<Value>> {
        self.by_kind.get(&kind).into_iter().flat_map(|documents| documents.iter())
    }

    /// Whether all objects of a kind are here.
    pub fn has_all(&self, kind: WatchedKind) -> bool {
        !self.cut.contains_key(&kind)
    }

    /// The namespaces of which not all objects of a kind are here.
    pub fn cut(&self, kind: WatchedKind) -> impl Iterator<Item = &String> {
        self.cut.get(&kind).into_iter().flatten()
    }

    /// The same objects, of which these namespaces have more.
    #[must_use]
    pub fn cut_in(mut self, kind: WatchedKind, namespaces: impl IntoIterator<Item = String>) -> Self {
        self.cut.entry(kind).or_default().extend(namespaces);
        self
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
            let cut = (kind == WatchedKind::Service).then(|| "team".to_owned());
            objects.set(kind, [Arc::new(Value::Null)].into(), cut.into_iter().collect());
        }
        assert!(objects.is_listed() && objects.has_all(WatchedKind::Namespace));
        assert!(!objects.has_all(WatchedKind::Service));
        assert_eq!(objects.cut(WatchedKind::Service).collect::<Vec<_>>(), ["team"]);
        assert_eq!((objects.of_gateway_api().count(), objects.of(WatchedKind::Service).count()), (5, 1));
        objects.set(WatchedKind::Service, [].into(), BTreeSet::new());
        assert!(objects.has_all(WatchedKind::Service));
    }

    #[test]
    fn policies_are_listed_when_each_kind_is() {
        let mut objects = GatewayApiObjects::default();
        for kind in WatchedKind::OF_POLICIES {
            assert!(!objects.lists_policies());
            objects.set(kind, [].into(), BTreeSet::new());
        }
        assert!(objects.lists_policies() && !objects.is_listed());
    }
}

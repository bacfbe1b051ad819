use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::WatchedKind;

/// The most objects of a kind that are judged. Beyond it the youngest are left out: tenants write routes.
const MAX_OBJECTS: usize = 5_000;

/// The objects of the Gateway API, with those that it needs beside them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayApiObjects {
    by_kind: BTreeMap<WatchedKind, Vec<Arc<Value>>>,
    /// The kinds of which some are left out.
    cut: BTreeSet<WatchedKind>,
}

impl GatewayApiObjects {
    /// Takes the objects of a kind.
    pub(super) fn insert(&mut self, kind: WatchedKind, mut documents: Vec<Arc<Value>>) {
        if documents.len() > MAX_OBJECTS {
            tracing::warn!(
                kind = kind.plural(),
                count = documents.len(),
                "only the oldest {MAX_OBJECTS} are looked at"
            );
            documents.sort_by(|one, other| created(one).cmp(created(other)));
            documents.truncate(MAX_OBJECTS);
            self.cut.insert(kind);
        }
        self.by_kind.insert(kind, documents);
    }

    /// The objects of a kind.
    pub fn of(&self, kind: WatchedKind) -> impl Iterator<Item = &Arc<Value>> {
        self.by_kind.get(&kind).into_iter().flatten()
    }

    /// Whether all objects of a kind are here.
    pub fn has_all(&self, kind: WatchedKind) -> bool {
        !self.cut.contains(&kind)
    }

    /// The objects of the Gateway API's own kinds.
    pub fn of_gateway_api(&self) -> impl Iterator<Item = &Arc<Value>> {
        let needed = [WatchedKind::Namespace, WatchedKind::Service];
        self.by_kind.iter().filter(move |(kind, _)| !needed.contains(kind)).flat_map(|(_, documents)| documents)
    }
}

fn created(document: &Value) -> &str {
    document.pointer("/metadata/creationTimestamp").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn youngest_objects_beyond_the_bound_are_left_out() {
        let route = |index: usize| {
            Arc::new(
                json!({"metadata": {"creationTimestamp": format!("2024-01-01T00:{:02}:{:02}Z", 59 - index / 100 % 60, index % 60), "name": index.to_string()}}),
            )
        };
        let mut objects = GatewayApiObjects::default();
        let documents: Vec<_> = (0..MAX_OBJECTS + 10).map(route).collect();
        let mut times: Vec<_> = documents.iter().map(|one| created(one).to_owned()).collect();
        times.sort();
        objects.insert(WatchedKind::HttpRoute, documents);
        let kept: Vec<_> = objects.of_gateway_api().map(|one| created(one).to_owned()).collect();
        assert_eq!(kept, times[..MAX_OBJECTS]);
        assert_eq!(objects.of(WatchedKind::Gateway).count(), 0);
        assert!(objects.has_all(WatchedKind::Gateway) && !objects.has_all(WatchedKind::HttpRoute));
    }
}

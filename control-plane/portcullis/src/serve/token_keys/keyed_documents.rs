use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{KeySource, ShownKeys, put_shown_keys, shown_keys_of};
use portcullis_sources::ObjectSet;
use serde_json::Value;

use super::super::by_place::ByPlace;
use super::sources::asks;

/// Puts keys into the documents of sets that follow each other. A document that is the same allocation as before, with the same keys,
/// leads to the same allocation.
#[derive(Default)]
pub(super) struct KeyedDocuments(ByPlace<Value, KeyedDocument>);

struct KeyedDocument {
    /// Whether it has keys read.
    asks: bool,
    /// With the keys in it that were put there last.
    keyed: Option<Arc<Value>>,
}

impl KeyedDocuments {
    /// The documents that have keys read, in their order. Returns also how many were looked at.
    pub(super) fn asking(&mut self, documents: &[Arc<Value>]) -> (Vec<Arc<Value>>, usize) {
        let change = self.0.follow(documents, |_, document| KeyedDocument { asks: asks(document), keyed: None });
        let asking = self.0.values().zip(documents).filter(|(one, _)| one.asks);
        (asking.map(|(_, document)| Arc::clone(document)).collect(), change.new.len())
    }

    /// The set with the keys that are `found` for each of its documents that has keys read.
    pub(super) fn put(
        &mut self,
        set: &Arc<ObjectSet>,
        found: impl Fn(&Value) -> BTreeMap<KeySource, ShownKeys>,
    ) -> Arc<ObjectSet> {
        let (asking, _) = self.asking(&set.clusters);
        if asking.is_empty() {
            return Arc::clone(set);
        }
        let mut changed = ObjectSet::clone(set);
        let known = self.0.entries_mut().zip(&mut changed.clusters);
        for ((written, one), document) in known.filter(|((_, one), _)| one.asks) {
            let found = found(written);
            let before = one.keyed.take().filter(|keyed| has_keys(keyed, &found));
            let keyed = before.unwrap_or_else(|| {
                let mut keyed = written.as_ref().clone();
                put_shown_keys(&mut keyed, &found);
                Arc::new(keyed)
            });
            document.clone_from(&keyed);
            one.keyed = Some(keyed);
        }
        Arc::new(changed)
    }
}

/// Whether these were put into a document: its sources are the same, of which nothing but the document decides.
fn has_keys(keyed: &Value, found: &BTreeMap<KeySource, ShownKeys>) -> bool {
    let status = keyed.get("status");
    found.iter().all(|(source, shown)| shown_keys_of(status, source) == *shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::sources::asks_servers;
    use super::*;

    fn document(number: usize, edition: u8, asks: bool) -> Arc<Value> {
        let issuers = json!([{"url": "a", "jwks": {"fromServers": asks}}]);
        Arc::new(json!({
            "metadata": {"name": format!("c{number}")}, "edition": edition,
            "spec": {"portcullis": {"tokens": {"issuers": issuers}}},
        }))
    }

    fn found(document: &Value, answer: Option<u64>) -> BTreeMap<KeySource, ShownKeys> {
        let keys = answer.map(|answer| (format!("keys of {}", document["metadata"]["name"]), answer));
        let error = answer.is_none().then(|| "no".to_owned());
        asks_servers(document).then_some((KeySource::Servers, ShownKeys { keys, error })).into_iter().collect()
    }

    fn set(clusters: Vec<Arc<Value>>) -> Arc<ObjectSet> {
        Arc::new(ObjectSet { clusters, ..ObjectSet::default() })
    }

    #[test]
    fn edit_of_one_document_looks_at_it_alone() {
        let mut documents = KeyedDocuments::default();
        let mut clusters: Vec<_> = (0..1_000).map(|number| document(number, 0, number % 2 == 0)).collect();
        let found = |document: &Value| found(document, Some(1));
        assert_eq!(documents.asking(&clusters).1, 1_000);
        let before = documents.put(&set(clusters.clone()), found);
        clusters[500] = document(500, 1, true);
        let (asking, looked_at) = documents.asking(&clusters);
        assert_eq!((asking.len(), looked_at), (500, 1));
        let after = documents.put(&set(clusters), found);
        let others = before.clusters.iter().zip(&after.clusters).filter(|(one, other)| !Arc::ptr_eq(one, other));
        assert_eq!(others.count(), 1);
    }

    proptest! {
        #[test]
        fn sets_are_those_of_documents_without_a_memory(
            rounds in proptest::collection::vec(
                (proptest::collection::vec((0..4_usize, 0..2_u8, any::<bool>()), 0..6), proptest::option::of(0..2_u64)),
                1..10),
        ) {
            let mut documents = KeyedDocuments::default();
            let mut made: BTreeMap<(usize, u8, bool), Arc<Value>> = BTreeMap::new();
            for (clusters, answer) in rounds {
                let one = |key: (usize, u8, bool)| {
                    Arc::clone(made.entry(key).or_insert_with(|| document(key.0, key.1, key.2)))
                };
                let set = set(clusters.into_iter().map(one).collect());
                let found = |document: &Value| found(document, answer);
                let with_memory = documents.put(&set, found);
                let without = KeyedDocuments::default().put(&set, found);
                prop_assert_eq!(&with_memory.clusters, &without.clusters);
            }
        }
    }
}

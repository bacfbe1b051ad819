use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::checked_cluster::CheckedCluster;

/// The results of documents, each without the others. Those that are not in use are kept for the translation after the last one that
/// used them: a refused version and the accepted one before it are translated one after the other.
#[derive(Default)]
pub(crate) struct CheckedDocuments {
    /// By `metadata.name`: several if objects have equal names, and the previous version of one.
    known: HashMap<String, Vec<CachedTranslation>>,
    /// The names with results that are perhaps not in use.
    unused: BTreeSet<String>,
}

struct CachedTranslation {
    document: Arc<Value>,
    /// Whether it has its names alone.
    is_foreign: bool,
    checked: Arc<CheckedCluster>,
    /// Names that it claims and does not get.
    lost: Vec<String>,
    /// The number of the translation that used it last, if it is not in use.
    used: u64,
}

impl CheckedDocuments {
    /// The cached result of a document, or a new one. `sequence`: the number of the present translation.
    pub(crate) fn checked(
        &mut self,
        (document, is_foreign): (&Arc<Value>, bool),
        lost: &[String],
        sequence: u64,
        make: impl FnOnce() -> CheckedCluster,
    ) -> Arc<CheckedCluster> {
        let known = self.known.entry(name_of(document).to_owned()).or_default();
        let same = |one: &&mut CachedTranslation| {
            one.is_foreign == is_foreign
                && one.lost == lost
                && (Arc::ptr_eq(&one.document, document) || one.document == *document)
        };
        if let Some(one) = known.iter_mut().find(same) {
            one.used = sequence;
            // A source that reads anew has equal documents in other places.
            one.document = Arc::clone(document);
            return Arc::clone(&one.checked);
        }
        let mut checked = make();
        known.iter().for_each(|before| checked.keep_allocations(&before.checked));
        let checked = Arc::new(checked);
        let (document, lost) = (Arc::clone(document), lost.to_vec());
        let one = CachedTranslation { document, is_foreign, checked: Arc::clone(&checked), lost, used: sequence };
        known.push(one);
        checked
    }

    /// Notes that a result of a document is perhaps not in use from this translation on.
    pub(crate) fn leave(&mut self, document: &Value, result: &Arc<CheckedCluster>, sequence: u64) {
        let name = name_of(document);
        let known = self.known.get_mut(name).into_iter().flatten();
        known.filter(|one| Arc::ptr_eq(&one.checked, result)).for_each(|one| {
            // Used in this translation, if another document has it by now.
            one.used = one.used.max(sequence.saturating_sub(1));
        });
        self.unused.insert(name.to_owned());
    }

    /// Drops results that the last two translations did not use.
    pub(crate) fn forget(&mut self, sequence: u64) {
        let known = &mut self.known;
        self.unused.retain(|name| {
            let Some(results) = known.get_mut(name) else { return false };
            results.retain(|one| one.is_in_use() || one.used + 1 >= sequence);
            let is_all_in_use = results.iter().all(CachedTranslation::is_in_use);
            if results.is_empty() {
                known.remove(name);
            }
            !is_all_in_use
        });
    }

    /// The number of results that are kept.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.known.values().map(Vec::len).sum()
    }
}

impl CachedTranslation {
    /// Whether the last translation has it, too.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.checked) > 1
    }
}

fn name_of(document: &Value) -> &str {
    document.get("metadata").and_then(|metadata| metadata.get("name")?.as_str()).unwrap_or_default()
}

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::StreamRegistry;

/// Fewer names than this are not worth a look.
const SWEEP_THRESHOLD: usize = 64;

/// The long-running streams of all objects, by the cluster's name and the word for its object: a name's next owner says nothing
/// about the sessions of the one before. Streams live as long as something uses them, over all edits.
#[derive(Debug)]
pub struct StreamOwners<T>(Mutex<OwnerNames<T>>);

/// The word for an object, and its streams.
type Owner<T> = (String, Weak<StreamRegistry<T>>);

#[derive(Debug)]
struct OwnerNames<T> {
    /// The objects of a name, rarely more than one.
    objects: HashMap<String, Vec<Owner<T>>>,
    /// Number of names at which unused ones are swept.
    most: usize,
}

impl<T> Default for StreamOwners<T> {
    fn default() -> Self {
        StreamOwners(Mutex::new(OwnerNames { objects: HashMap::new(), most: SWEEP_THRESHOLD }))
    }
}

impl<T> StreamOwners<T> {
    /// The streams of an object.
    pub fn of(&self, name: &str, object: &str) -> Arc<StreamRegistry<T>> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.sweep();
        let objects = names.objects.entry(name.to_owned()).or_default();
        objects.retain(|(_, streams)| streams.strong_count() > 0);
        if let Some(known) = objects.iter().find(|(known, _)| known == object).and_then(|(_, known)| known.upgrade()) {
            return known;
        }
        let new = Arc::default();
        objects.push((object.to_owned(), Arc::downgrade(&new)));
        new
    }

    /// The streams of other objects of the name.
    pub(crate) fn others(&self, name: &str, object: &str) -> Vec<Arc<StreamRegistry<T>>> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = names.objects.get(name).into_iter().flatten().filter(|(other, _)| other != object);
        others.filter_map(|(_, streams)| streams.upgrade()).collect()
    }

    /// Calls `f` for the streams of every object.
    pub fn for_each(&self, f: impl FnMut(Arc<StreamRegistry<T>>)) {
        let all: Vec<_> = {
            let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            names.objects.values().flatten().filter_map(|(_, streams)| streams.upgrade()).collect()
        };
        all.into_iter().for_each(f);
    }
}

impl<T> OwnerNames<T> {
    fn sweep(&mut self) {
        // Not at every call: a configuration with many clusters would look through all of them for each.
        if self.objects.len() >= self.most {
            self.objects.retain(|_, objects| objects.iter().any(|(_, streams)| streams.strong_count() > 0));
            self.most = self.objects.len().saturating_mul(2).max(SWEEP_THRESHOLD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_of_a_name_has_streams_of_its_own() {
        let owners = StreamOwners::<()>::default();
        let (first, second) = (owners.of("a", "1"), owners.of("a", "2"));
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first, &owners.of("a", "1")));
        assert_eq!(owners.others("a", "2").len(), 1);
        assert!(Arc::ptr_eq(&owners.others("a", "2")[0], &first) && owners.others("b", "2").is_empty());
        let mut number = 0;
        owners.for_each(|_| number += 1);
        assert_eq!(number, 2);
        drop(first);
        assert!(owners.others("a", "2").is_empty());
        for name in 0..1_000 {
            drop(owners.of(&name.to_string(), ""));
        }
        let kept = owners.0.lock().unwrap().objects.len();
        assert!(kept <= SWEEP_THRESHOLD + 1 && Arc::ptr_eq(&second, &owners.of("a", "2")), "{kept}");
    }
}

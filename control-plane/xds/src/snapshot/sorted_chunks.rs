//! A sorted map in chunks that maps which follow each other share: a change costs the chunks in which it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::content_hash::ContentHash;

/// Entries of a chunk before a key can begin the next one: keys that all begin chunks cost little memory more.
const LEAST: usize = 16;
/// Most entries of a chunk, whichever keys there are.
const MOST: usize = 256;
/// Of so many keys one begins a chunk.
const SPREAD: u64 = 64;

/// A key of a sorted map in chunks.
pub(super) trait ChunkedKey: Ord + Clone {
    /// The text that decides whether a chunk begins with the key.
    fn text(&self) -> &str;
}

impl ChunkedKey for Arc<str> {
    fn text(&self) -> &str {
        self
    }
}

/// An owner and a name.
impl ChunkedKey for (Arc<str>, Arc<str>) {
    fn text(&self) -> &str {
        &self.1
    }
}

/// A sorted map. Its chunks depend on its entries alone, not on the changes that led to it: equal maps have equal chunks.
///
/// A chunk begins at a key whose hash says so, if the chunk before has enough entries, and where that one has as many as it may
/// have. Keys of one's choice, none of which begins a chunk, make an insertion among them cost them all, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SortedChunks<K, V> {
    chunks: Vec<Arc<SharedChunk<K, V>>>,
    len: usize,
}

/// Entries that follow each other: at least one.
#[derive(Debug)]
struct SharedChunk<K, V> {
    entries: Box<[(K, V)]>,
    /// The hash of the entries, once it was asked for.
    version: OnceLock<String>,
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedChunk<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl<K: Eq, V: Eq> Eq for SharedChunk<K, V> {}

impl<K, V> Default for SortedChunks<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<K: ChunkedKey, V: Clone> SortedChunks<K, V> {
    /// The map of all these entries.
    pub(super) fn new(entries: BTreeMap<K, V>) -> Self {
        let len = entries.len();
        let mut builder = ChunkBuilder::default();
        entries.into_iter().for_each(|entry| builder.push(entry));
        builder.finish(len)
    }

    /// The map after a change. A key that is among both has another value. `None` if a key leaves that is not there, or comes beside
    /// itself.
    pub(super) fn changed_by(&self, gone: BTreeSet<K>, new: BTreeMap<K, V>) -> Option<Self> {
        let has = |key: &K| self.get_by(|other| other.cmp(key)).is_some();
        let is_double = |key: &K| !gone.contains(key) && has(key);
        if !gone.iter().all(has) || new.keys().any(is_double) {
            return None;
        }
        let len = (self.len + new.len()).checked_sub(gone.len())?;
        let mut edits: BTreeMap<K, Option<V>> = gone.into_iter().map(|key| (key, None)).collect();
        edits.extend(new.into_iter().map(|(key, value)| (key, Some(value))));
        let mut builder = ChunkBuilder::default();
        let mut rest = self.chunks.as_slice();
        while let Some((first, _)) = edits.first_key_value() {
            // The chunk of an edit begins at its key or before; the first chunk takes what comes before all.
            let at = rest.partition_point(|chunk| chunk.first().is_some_and(|key| key <= first)).saturating_sub(1);
            let (same, others) = rest.split_at_checked(at)?;
            builder.share(same);
            let (chunk, following) = others.split_first().map_or((None, others), |(one, rest)| (Some(one), rest));
            let later = following.first().and_then(|next| next.first()).map(|next| edits.split_off(next));
            let here = std::mem::replace(&mut edits, later.unwrap_or_default());
            builder.merge(chunk.map_or(&[], |chunk| &chunk.entries), here);
            rest = following;
        }
        builder.share(rest);
        Some(builder.finish(len))
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, sorted.
    pub(super) fn iter(&self) -> SortedEntries<'_, K, V> {
        SortedEntries { first: [].iter(), others: self.chunks.iter() }
    }

    /// The entries behind those whose keys come before a place.
    pub(super) fn from(&self, is_before: impl Fn(&K) -> bool) -> SortedEntries<'_, K, V> {
        let at = self.chunks.partition_point(|chunk| chunk.first().is_some_and(&is_before));
        let mut others = self.chunks.get(at.saturating_sub(1)..).unwrap_or_default().iter();
        let entries = others.next().map_or(&[][..], |chunk| &chunk.entries);
        let begin = entries.partition_point(|(key, _)| is_before(key));
        SortedEntries { first: entries.get(begin..).unwrap_or_default().iter(), others }
    }

    /// The entry of a key, by how keys compare with it.
    pub(super) fn get_by(&self, compare: impl Fn(&K) -> std::cmp::Ordering) -> Option<&(K, V)> {
        let at = self.chunks.partition_point(|chunk| chunk.first().is_some_and(|key| compare(key).is_le()));
        let chunk = self.chunks.get(at.checked_sub(1)?)?;
        let found = chunk.entries.binary_search_by(|(key, _)| compare(key)).ok()?;
        chunk.entries.get(found)
    }

    /// A hash of all entries. `add` adds one to a hash.
    pub(super) fn version(&self, add: impl Fn(&mut ContentHash, &(K, V))) -> String {
        let mut hash = ContentHash::default();
        for chunk in &self.chunks {
            hash.add(chunk.version.get_or_init(|| {
                let mut hash = ContentHash::default();
                chunk.entries.iter().for_each(|entry| add(&mut hash, entry));
                hash.finish()
            }));
        }
        hash.finish()
    }

    /// The slices of entries of two maps without those that both share.
    pub(super) fn unshared<'a>(&'a self, other: &'a Self) -> [Vec<&'a [(K, V)]>; 2] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let (mut one, mut two) = (self.chunks.as_slice(), other.chunks.as_slice());
        while let (Some((a, after_a)), Some((b, after_b))) = (one.split_first(), two.split_first()) {
            if Arc::ptr_eq(a, b) {
                (one, two) = (after_a, after_b);
                continue;
            }
            // A shared chunk begins at one key in both, so that the chunk which begins earlier is not shared any more.
            let order = a.first().cmp(&b.first());
            if order.is_le() {
                ours.push(&*a.entries);
                one = after_a;
            }
            if order.is_ge() {
                theirs.push(&*b.entries);
                two = after_b;
            }
        }
        ours.extend(one.iter().map(|chunk| &*chunk.entries));
        theirs.extend(two.iter().map(|chunk| &*chunk.entries));
        [ours, theirs]
    }
}

impl<K, V> SharedChunk<K, V> {
    fn first(&self) -> Option<&K> {
        self.entries.first().map(|(key, _)| key)
    }
}

/// Entries of a sorted map, one after the other.
pub(super) struct SortedEntries<'a, K, V> {
    first: std::slice::Iter<'a, (K, V)>,
    others: std::slice::Iter<'a, Arc<SharedChunk<K, V>>>,
}

impl<'a, K, V> Iterator for SortedEntries<'a, K, V> {
    type Item = &'a (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.first.next() {
                return Some(entry);
            }
            self.first = self.others.next()?.entries.iter();
        }
    }
}

/// Makes chunks of entries in their order.
struct ChunkBuilder<K, V> {
    chunks: Vec<Arc<SharedChunk<K, V>>>,
    last: LastChunk<K, V>,
}

/// The chunk that is not known to be complete.
enum LastChunk<K, V> {
    /// One of another map, whole.
    Shared(Arc<SharedChunk<K, V>>),
    /// One of its own; empty at the beginning alone.
    Made(Vec<(K, V)>),
}

impl<K, V> Default for ChunkBuilder<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), last: LastChunk::Made(Vec::new()) }
    }
}

impl<K: ChunkedKey, V: Clone> ChunkBuilder<K, V> {
    /// Adds an entry.
    fn push(&mut self, entry: (K, V)) {
        if self.begins_chunk(&entry.0) {
            self.close();
        }
        match &mut self.last {
            LastChunk::Made(entries) => entries.push(entry),
            LastChunk::Shared(chunk) => {
                let entries = chunk.entries.iter().cloned().chain([entry]);
                self.last = LastChunk::Made(entries.collect());
            }
        }
    }

    /// Adds whole chunks of another map, which follow each other there.
    fn share(&mut self, chunks: &[Arc<SharedChunk<K, V>>]) {
        // Behind a whole chunk of the other map the next one begins as it did there.
        let mut is_aligned = false;
        for chunk in chunks {
            is_aligned = is_aligned || self.is_empty() || chunk.first().is_some_and(|key| self.begins_chunk(key));
            if is_aligned {
                self.close();
                self.last = LastChunk::Shared(Arc::clone(chunk));
            } else {
                chunk.entries.iter().cloned().for_each(|entry| self.push(entry));
            }
        }
    }

    /// Adds the entries of a chunk after edits: one without a value leaves.
    fn merge(&mut self, entries: &[(K, V)], edits: BTreeMap<K, Option<V>>) {
        let entry = |(key, value): (K, Option<V>)| Some((key, value?));
        let mut edits = edits.into_iter().peekable();
        for known in entries {
            while let Some(edit) = edits.next_if(|(key, _)| *key < known.0) {
                entry(edit).into_iter().for_each(|entry| self.push(entry));
            }
            match edits.next_if(|(key, _)| *key == known.0) {
                // The key that is known already: streams have the same allocation.
                Some((_, value)) => value.into_iter().for_each(|value| self.push((known.0.clone(), value))),
                None => self.push(known.clone()),
            }
        }
        edits.filter_map(entry).for_each(|entry| self.push(entry));
    }

    fn is_empty(&self) -> bool {
        matches!(&self.last, LastChunk::Made(entries) if entries.is_empty())
    }

    fn begins_chunk(&self, key: &K) -> bool {
        let length = match &self.last {
            LastChunk::Shared(chunk) => chunk.entries.len(),
            LastChunk::Made(entries) => entries.len(),
        };
        length >= MOST || length >= LEAST && stable_hash(key.text()).is_multiple_of(SPREAD)
    }

    fn close(&mut self) {
        match std::mem::replace(&mut self.last, LastChunk::Made(Vec::new())) {
            LastChunk::Shared(chunk) => self.chunks.push(chunk),
            LastChunk::Made(entries) if entries.is_empty() => {}
            LastChunk::Made(entries) => {
                self.chunks.push(Arc::new(SharedChunk { entries: entries.into(), version: OnceLock::new() }));
            }
        }
    }

    fn finish(mut self, len: usize) -> SortedChunks<K, V> {
        self.close();
        self.chunks.shrink_to_fit();
        SortedChunks { chunks: self.chunks, len }
    }
}

/// A hash that is the same in all processes: FNV-1a, its bits mixed.
fn stable_hash(text: &str) -> u64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests;

use super::static_hash_table::StaticHashTable;
use crate::seeded_hash::hash_bytes;

/// Texts that a rule compares whole, and their ids. A text has two parts, for `resource/subresource`; elsewhere the
/// second is empty.
#[derive(Debug)]
pub(crate) struct Names {
    buckets: StaticHashTable,
    spans: Box<[Span]>,
    text: Box<[u8]>,
    longest: usize,
}

#[derive(Debug)]
struct Span {
    start: usize,
    middle: usize,
    end: usize,
    id: u32,
}

impl Names {
    pub(crate) fn new<'k>(keys: impl Iterator<Item = ((&'k str, &'k str), u32)>) -> Self {
        let mut text = Vec::new();
        let mut spans = Vec::new();
        for ((first, second), id) in keys {
            let start = text.len();
            text.extend_from_slice(first.as_bytes());
            let middle = text.len();
            text.extend_from_slice(second.as_bytes());
            spans.push(Span { start, middle, end: text.len(), id });
        }
        let part = |start: usize, end: usize| text.get(start..end).unwrap_or_default();
        let count = u32::try_from(spans.len()).unwrap_or(u32::MAX);
        let buckets = StaticHashTable::build(count, |seed, entry| {
            let span: Option<&Span> = spans.get(entry as usize);
            span.map_or(0, |span| hash_pair(seed, part(span.start, span.middle), part(span.middle, span.end)))
        });
        let longest = spans.iter().map(|span| span.end - span.start).max().unwrap_or(0);
        Names { buckets, spans: spans.into(), text: text.into(), longest }
    }

    /// The text's id. A text longer than every known one is not read.
    pub(crate) fn find(&self, first: &[u8], second: &[u8]) -> Option<u32> {
        #[cfg(test)]
        tests::count();
        if self.spans.is_empty() || first.len().saturating_add(second.len()) > self.longest {
            return None;
        }
        let hash = hash_pair(self.buckets.seed(), first, second);
        let mut spans = self.buckets.candidates(hash).filter_map(|entry| self.spans.get(entry));
        spans.find(|span| self.reads(span, first, second)).map(|span| span.id)
    }

    fn reads(&self, span: &Span, first: &[u8], second: &[u8]) -> bool {
        // Most texts have one part: the other is compared by its length alone.
        span.end.wrapping_sub(span.middle) == second.len()
            && self.text.get(span.start..span.middle) == Some(first)
            && (second.is_empty() || self.text.get(span.middle..span.end) == Some(second))
    }
}

fn hash_pair(seed: u64, first: &[u8], second: &[u8]) -> u64 {
    let hash = hash_bytes(seed, first);
    if second.is_empty() { hash } else { hash_bytes(hash, second) }
}

#[cfg(test)]
pub(crate) use tests::lookups;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static LOOKUPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        LOOKUPS.set(LOOKUPS.get() + 1);
    }

    /// How many texts this thread has looked up.
    pub(crate) fn lookups() -> usize {
        LOOKUPS.get()
    }

    #[test]
    fn text_is_found_by_both_its_parts() {
        let keys = [("pods", ""), ("pods", "log"), ("", ""), ("", "log"), ("podsl", "og")];
        let names = Names::new(keys.into_iter().zip(10..));
        for ((first, second), id) in keys.into_iter().zip(10..) {
            assert_eq!(names.find(first.as_bytes(), second.as_bytes()), Some(id));
        }
        for (first, second) in [("podslog", ""), ("po", "ds"), ("*", "log"), ("a name longer than any other", "")] {
            assert_eq!(names.find(first.as_bytes(), second.as_bytes()), None, "{first} {second}");
        }
        assert_eq!(Names::new([].into_iter()).find(b"", b""), None);
    }
}

/// Beginnings of texts, sorted, each knowing the longest other one that it begins with: one binary search finds all that
/// a text begins with, whatever their number.
#[derive(Debug)]
pub(super) struct Prefixes {
    entries: Box<[PrefixEntry]>,
    text: Box<[u8]>,
}

#[derive(Debug)]
struct PrefixEntry {
    start: usize,
    len: usize,
    id: u32,
    parent: Option<usize>,
}

impl Prefixes {
    /// `keys` in ascending order.
    pub(super) fn new<'k>(keys: impl Iterator<Item = (&'k str, u32)>) -> Self {
        let mut prefixes = Prefixes { entries: Box::default(), text: Box::default() };
        let mut text: Vec<u8> = Vec::new();
        let mut entries: Vec<PrefixEntry> = Vec::new();
        // The chain of what the entry before begins with, itself included.
        let mut open: Vec<(usize, &str)> = Vec::new();
        for (at, (key, id)) in keys.enumerate() {
            while open.last().is_some_and(|(_, beginning)| !key.starts_with(beginning)) {
                open.pop();
            }
            let parent = open.last().map(|(parent, _)| *parent);
            entries.push(PrefixEntry { start: text.len(), len: key.len(), id, parent });
            text.extend_from_slice(key.as_bytes());
            open.push((at, key));
        }
        prefixes.entries = entries.into();
        prefixes.text = text.into();
        prefixes
    }

    /// The ids of all entries that the subject begins with, the longest first.
    pub(super) fn matching(&self, subject: &[u8]) -> impl Iterator<Item = u32> {
        // Everything between a beginning of the subject and the subject itself begins with it too, so all that are
        // looked for are among the parents of the last entry that does not sort behind the subject.
        let behind = self.entries.partition_point(|entry| self.text(entry) <= subject);
        let last = behind.checked_sub(1).and_then(|at| self.entries.get(at));
        let shared = last.map_or(0, |entry| shared_len(self.text(entry), subject));
        let chain = std::iter::successors(last, |entry| self.entries.get(entry.parent?));
        chain.skip_while(move |entry| entry.len > shared).map(|entry| entry.id)
    }

    fn text(&self, entry: &PrefixEntry) -> &[u8] {
        self.text.get(entry.start..entry.start.saturating_add(entry.len)).unwrap_or_default()
    }
}

fn shared_len(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_found_longest_first() {
        let keys = ["", "/api", "/api/v1", "/apis", "/apis/apps", "/b", "/bc", "/bd"];
        let prefixes = Prefixes::new(keys.into_iter().zip(0..));
        let table: [(&str, &[&str]); 9] = [
            ("", &[""]),
            ("/", &[""]),
            ("/api", &["/api", ""]),
            ("/api/v1/x", &["/api/v1", "/api", ""]),
            ("/apis/batch", &["/apis", "/api", ""]),
            ("/apiz", &["/api", ""]),
            ("/bcd", &["/bc", "/b", ""]),
            ("/bz", &["/b", ""]),
            ("zzz", &[""]),
        ];
        for (subject, expected) in table {
            let found: Vec<&str> = prefixes.matching(subject.as_bytes()).map(|id| keys[id as usize]).collect();
            assert_eq!(found, expected, "{subject}");
        }
        assert_eq!(Prefixes::new([].into_iter()).matching(b"x").count(), 0);
    }
}

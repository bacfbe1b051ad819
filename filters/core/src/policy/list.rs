/// A rule's list, read: `*` is everything, positive entries are alternatives, and a list of exclusions only excludes
/// every one of them, with `-*` everything. Exclusions beside a positive entry do not count.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum List<'c> {
    All,
    AnyOf(Vec<&'c str>),
    /// The excluded entries, without their leading `-`.
    NoneOf(Vec<&'c str>),
}

impl<'c> List<'c> {
    /// Reads a list. `None` is an empty one, whose meaning is the field's own.
    pub(super) fn read(entries: &'c [String]) -> Option<Self> {
        if entries.is_empty() {
            return None;
        }
        if entries.iter().any(|entry| entry == "*") {
            return Some(List::All);
        }
        let positives: Vec<&str> = entries.iter().map(String::as_str).filter(|entry| !entry.starts_with('-')).collect();
        if !positives.is_empty() {
            return Some(List::AnyOf(positives));
        }
        if entries.iter().any(|entry| entry == "-*") {
            return Some(List::AnyOf(Vec::new()));
        }
        Some(List::NoneOf(entries.iter().filter_map(|entry| entry.strip_prefix('-')).collect()))
    }
}

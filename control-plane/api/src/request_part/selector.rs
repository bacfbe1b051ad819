//! A rule's lists as sets, for comparing them. The gateway's own reading of the lists is the filter's; a property test
//! of the binary holds the two against each other.

use portcullis_filter_config::{RuleEntries, RuleList};

/// The meaning of an entry of a list.
pub(super) trait Pattern: Sized + PartialEq {
    /// Reads an entry, without its leading `-`.
    fn parse(entry: &str) -> Self;

    /// Whether it covers whatever `other` covers.
    fn covers(&self, other: &Self) -> bool;

    /// Whether nothing is covered by both.
    fn is_disjoint(&self, other: &Self) -> bool;
}

/// A list: `*` is everything, positive entries are alternatives, exclusions count only without a positive entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selector<P> {
    All,
    AnyOf(Vec<P>),
    NoneOf(Vec<P>),
}

impl<P: Pattern> Selector<P> {
    /// Reads a list. The meaning of an empty one is the field's own rule.
    pub(super) fn new(entries: &[String], empty: Self) -> Self {
        let patterns = |entries: RuleEntries<'_>| entries.map(P::parse).collect();
        match RuleList::read(entries) {
            None => empty,
            Some(RuleList::All) => Selector::All,
            Some(RuleList::AnyOf(entries)) => Selector::AnyOf(patterns(entries)),
            Some(RuleList::NoneOf(entries)) => Selector::NoneOf(patterns(entries)),
        }
    }

    /// Reads a list that knows no exclusions.
    pub(super) fn without_exclusions(entries: &[String]) -> Self {
        match Selector::new(entries, Selector::nothing()) {
            Selector::NoneOf(_) => Selector::nothing(),
            selector => selector,
        }
    }

    pub(super) fn nothing() -> Self {
        Selector::AnyOf(Vec::new())
    }

    /// Whether it certainly matches nothing. `false` is no promise.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Selector::AnyOf(wanted) if wanted.is_empty())
    }

    /// Whether it certainly matches whatever `narrow` matches. `false` is no promise.
    pub(super) fn covers(&self, narrow: &Self) -> bool {
        if narrow.is_empty() {
            return true;
        }
        match (self, narrow) {
            (Selector::All, _) => true,
            (Selector::AnyOf(wide), Selector::AnyOf(narrow)) => narrow.iter().all(|n| wide.iter().any(|w| w.covers(n))),
            (Selector::AnyOf(_), _) | (Selector::NoneOf(_), Selector::All) => false,
            (Selector::NoneOf(out), Selector::AnyOf(narrow)) => {
                narrow.iter().all(|n| out.iter().all(|out| out.is_disjoint(n)))
            }
            (Selector::NoneOf(out), Selector::NoneOf(narrow)) => {
                out.iter().all(|out| narrow.iter().any(|n| n.covers(out)))
            }
        }
    }
}

/// The same text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exact(String);

impl Pattern for Exact {
    fn parse(entry: &str) -> Self {
        Exact(entry.to_owned())
    }

    fn covers(&self, other: &Self) -> bool {
        self == other
    }

    fn is_disjoint(&self, other: &Self) -> bool {
        self != other
    }
}

/// The same text, or the same beginning where the entry ends in `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    Text(String),
    Start(String),
}

impl Pattern for Prefix {
    fn parse(entry: &str) -> Self {
        match entry.strip_suffix('*') {
            Some(start) => Prefix::Start(start.to_owned()),
            None => Prefix::Text(entry.to_owned()),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Prefix::Text(text), Prefix::Text(other)) => text == other,
            (Prefix::Text(_), Prefix::Start(_)) => false,
            (Prefix::Start(start), Prefix::Text(other) | Prefix::Start(other)) => other.starts_with(start),
        }
    }

    fn is_disjoint(&self, other: &Self) -> bool {
        !self.covers(other) && !other.covers(self)
    }
}

/// `resource`, `resource/subresource` or `*/subresource`. `resource/*` covers nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourcePattern {
    Plain(String),
    Subresource { resource: String, subresource: String },
    AnySubresource(String),
    Nothing,
}

impl Pattern for ResourcePattern {
    fn parse(entry: &str) -> Self {
        match entry.split_once('/') {
            None => ResourcePattern::Plain(entry.to_owned()),
            Some((_, "*" | "")) => ResourcePattern::Nothing,
            Some(("*", subresource)) => ResourcePattern::AnySubresource(subresource.to_owned()),
            Some((resource, subresource)) => {
                ResourcePattern::Subresource { resource: resource.to_owned(), subresource: subresource.to_owned() }
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, ResourcePattern::Nothing) => true,
            (ResourcePattern::Nothing, _) => false,
            (ResourcePattern::AnySubresource(any), ResourcePattern::Subresource { subresource, .. }) => {
                any == subresource
            }
            _ => self == other,
        }
    }

    fn is_disjoint(&self, other: &Self) -> bool {
        matches!((self, other), (ResourcePattern::Nothing, _) | (_, ResourcePattern::Nothing))
            || (!self.covers(other) && !other.covers(self))
    }
}

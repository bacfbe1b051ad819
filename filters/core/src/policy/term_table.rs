use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::dimension::Dimension;
use super::names::Names;
use super::prefixes::Prefixes;

/// The texts of one dimension, while rules are read. A text's id says which text it is, nothing more.
#[derive(Debug, Default)]
pub(super) struct TermTableBuilder<'c> {
    names: HashMap<(Cow<'c, str>, &'c str), u32>,
    prefixes: BTreeMap<&'c str, u32>,
}

impl<'c> TermTableBuilder<'c> {
    pub(super) fn name(&mut self, first: Cow<'c, str>, second: &'c str) -> u32 {
        let next = self.next();
        *self.names.entry((first, second)).or_insert(next)
    }

    fn prefix(&mut self, text: &'c str) -> u32 {
        let next = self.next();
        *self.prefixes.entry(text).or_insert(next)
    }

    /// So many entries as this could not tell apart fit no message.
    fn next(&self) -> u32 {
        u32::try_from(self.names.len().saturating_add(self.prefixes.len())).unwrap_or(u32::MAX)
    }

    /// Reads an entry other than a lone `*`, without its leading `-`. `None` covers nothing.
    pub(super) fn read(&mut self, dimension: Dimension, entry: &'c str) -> Option<u32> {
        Some(match dimension {
            Dimension::User | Dimension::Path => match entry.strip_suffix('*') {
                Some(start) => self.prefix(start),
                None => self.name(entry.into(), ""),
            },
            Dimension::Resource => match entry.split_once('/') {
                Some((_, "*" | "")) => return None,
                Some((resource, subresource)) => self.name(resource.into(), subresource),
                None => self.name(entry.into(), ""),
            },
            _ => self.name(entry.into(), ""),
        })
    }

    pub(super) fn freeze(&self) -> TermTable {
        let mut names: Vec<_> =
            self.names.iter().map(|((first, second), id)| ((first.as_ref(), *second), *id)).collect();
        names.sort_unstable_by_key(|(_, id)| *id);
        TermTable {
            names: Names::new(names.into_iter()),
            prefixes: Prefixes::new(self.prefixes.iter().map(|(text, id)| (*text, *id))),
        }
    }
}

/// The texts of one dimension, to look up what a request says.
#[derive(Debug)]
pub(super) struct TermTable {
    names: Names,
    prefixes: Prefixes,
}

impl TermTable {
    pub(super) fn name(&self, first: &[u8], second: &[u8]) -> Option<u32> {
        self.names.find(first, second)
    }

    pub(super) fn prefixes(&self, subject: &[u8]) -> impl Iterator<Item = u32> {
        self.prefixes.of(subject)
    }
}

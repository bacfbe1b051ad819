//! The values that rules distinguish on one axis: each text that is written somewhere, and one for all others.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::atoms::AtomSet;

/// Texts in order, so that those with the same start are together.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    texts: Vec<String>,
    /// The texts that no rule has.
    usual: AtomSet,
}

/// The texts for values that no rule names: with these ends something new is found behind any start.
const ENDINGS: [&str; 6] = ["example", "x", "-other", "0", "~", "zz9"];

impl Vocabulary {
    /// Of texts that are compared whole, and of starts. Only texts that a request can have are kept.
    pub(super) fn new(texts: BTreeSet<&str>, starts: &BTreeSet<&str>, is_possible: impl Fn(&str) -> bool) -> Self {
        let mut unnamed = BTreeSet::new();
        for start in starts {
            // Longer starts have their own.
            let longer = || starts.range(*start..).skip(1).take_while(|other| other.starts_with(start));
            let is_new = |text: &String| {
                !texts.contains(text.as_str()) && is_possible(text) && !longer().any(|other| text.starts_with(other))
            };
            unnamed.extend(ENDINGS.iter().map(|ending| format!("{start}{ending}")).find(is_new));
        }
        let possible = texts.iter().filter(|text| is_possible(text)).map(|text| (*text).to_owned());
        let all: BTreeSet<String> = possible.chain(unnamed.iter().cloned()).collect();
        let texts: Vec<String> = all.into_iter().collect();
        let mut vocabulary = Vocabulary { texts, usual: AtomSet::EMPTY };
        let atoms = unnamed.iter().map(|text| vocabulary.text_range(text)).collect();
        vocabulary.usual = AtomSet::of_ranges(atoms);
        vocabulary
    }

    pub(super) fn all(&self) -> AtomSet {
        AtomSet::range(0, count(self.texts.len()))
    }

    pub(super) fn usual(&self) -> &AtomSet {
        &self.usual
    }

    pub(super) fn text(&self, atom: u32) -> &str {
        self.texts.get(atom as usize).map_or("", String::as_str)
    }

    /// The atom of a text, as a range that is empty where there is none.
    pub(super) fn text_range(&self, text: &str) -> (u32, u32) {
        match self.texts.binary_search_by(|one| one.as_str().cmp(text)) {
            Ok(at) => (count(at), count(at).saturating_add(1)),
            Err(_) => (0, 0),
        }
    }

    /// The atoms of the texts that begin so.
    pub(super) fn start_range(&self, start: &str) -> (u32, u32) {
        let from = self.texts.partition_point(|one| one.as_str() < start);
        let behind = self.texts.iter().skip(from).take_while(|one| one.starts_with(start)).count();
        (count(from), count(from.saturating_add(behind)))
    }
}

/// Resources with subresources, those of one subresource together.
#[derive(Debug, Default)]
pub(super) struct ResourceVocabulary {
    /// Subresource, resource.
    pairs: Vec<(String, String)>,
    usual: AtomSet,
}

impl ResourceVocabulary {
    pub(super) fn new(named: BTreeSet<(String, String)>, any_of: &BTreeSet<String>, other: &str) -> Self {
        let subresources = any_of.iter().map(String::as_str).chain(["", "example"]);
        let usual: BTreeSet<(String, String)> =
            subresources.map(|subresource| (subresource.to_owned(), other.to_owned())).collect();
        let usual: BTreeSet<_> = usual.difference(&named).cloned().collect();
        let pairs: Vec<(String, String)> = named.union(&usual).cloned().collect();
        let mut vocabulary = ResourceVocabulary { pairs, usual: AtomSet::EMPTY };
        vocabulary.usual = AtomSet::of_ranges(usual.iter().map(|(sub, one)| vocabulary.pair_range(one, sub)).collect());
        vocabulary
    }

    pub(super) fn all(&self) -> AtomSet {
        AtomSet::range(0, count(self.pairs.len()))
    }

    pub(super) fn usual(&self) -> &AtomSet {
        &self.usual
    }

    /// Resource and subresource.
    pub(super) fn pair(&self, atom: u32) -> (&str, &str) {
        self.pairs.get(atom as usize).map_or(("", ""), |(subresource, resource)| (resource, subresource))
    }

    pub(super) fn pair_range(&self, resource: &str, subresource: &str) -> (u32, u32) {
        let is_before = |(sub, one): &(String, String)| (sub.as_str(), one.as_str()) < (subresource, resource);
        let at = self.pairs.partition_point(is_before);
        let is_it = self.pairs.get(at).is_some_and(|(sub, one)| sub == subresource && one == resource);
        (count(at), count(at).saturating_add(u32::from(is_it)))
    }

    pub(super) fn of_subresource(&self, subresource: &str) -> (u32, u32) {
        let from = self.pairs.partition_point(|(sub, _)| sub.as_str() < subresource);
        let to = self.pairs.partition_point(|(sub, _)| sub.as_str() <= subresource);
        (count(from), count(to))
    }

    /// The atoms for which a condition holds.
    pub(super) fn which(&self, is_it: impl Fn(&str, &str) -> bool) -> AtomSet {
        let atoms = self.pairs.iter().zip(0_u32..).filter(|((subresource, resource), _)| is_it(resource, subresource));
        AtomSet::of_ranges(atoms.map(|(_, atom)| (atom, atom.saturating_add(1))).collect())
    }
}

/// Addresses, as pieces between the ends of ranges. IPv4 addresses are in their form of IPv6.
#[derive(Debug, Default)]
pub(super) struct AddressVocabulary {
    /// The first address of each piece; the first piece begins at 0.
    starts: Vec<u128>,
}

/// IPv4 addresses in the form of IPv6 ones.
const MAPPED: u128 = 0xffff_0000_0000;
const BEHIND_MAPPED: u128 = 0x1_0000_0000_0000;

impl AddressVocabulary {
    pub(super) fn new<'t>(ranges: impl Iterator<Item = &'t String>) -> Self {
        let ends =
            ranges.filter_map(|range| bounds(range)).flat_map(|(first, last)| [Some(first), last.checked_add(1)]);
        let starts: BTreeSet<u128> = ends.flatten().chain([0, MAPPED, BEHIND_MAPPED]).collect();
        AddressVocabulary { starts: starts.into_iter().collect() }
    }

    pub(super) fn all(&self) -> AtomSet {
        AtomSet::range(0, count(self.starts.len()))
    }

    /// The pieces of IPv4 addresses, which are tried first.
    pub(super) fn usual(&self) -> AtomSet {
        self.between(MAPPED, BEHIND_MAPPED - 1)
    }

    /// The pieces of a range.
    pub(super) fn range(&self, text: &str) -> AtomSet {
        let Some((first, last)) = bounds(text) else { return AtomSet::EMPTY };
        let atoms = self.between(first, last);
        // A range of IPv6 that is wider than all of IPv4 holds no IPv4 address.
        if first < MAPPED || last >= BEHIND_MAPPED { atoms.without(&self.usual()) } else { atoms }
    }

    fn between(&self, first: u128, last: u128) -> AtomSet {
        let from = self.starts.partition_point(|start| *start < first);
        let to = self.starts.partition_point(|start| *start <= last);
        AtomSet::range(count(from), count(to))
    }

    /// An address of a piece: no first one of a network, where there is another.
    pub(super) fn address(&self, atom: u32) -> IpAddr {
        let at = atom as usize;
        let start = self.starts.get(at).copied().unwrap_or_default();
        let is_alone = self.starts.get(at.saturating_add(1)) == Some(&start.saturating_add(1));
        Ipv6Addr::from(if is_alone { start } else { start.saturating_add(1) }).to_canonical()
    }
}

/// First and last address of a range, as the filter reads it.
fn bounds(text: &str) -> Option<(u128, u128)> {
    let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
    let ip: IpAddr = ip.parse().ok()?;
    let (ip, of_v4) = match ip {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped(), Ipv6Addr::BITS - Ipv4Addr::BITS),
        IpAddr::V6(ip) => (ip, 0),
    };
    let length = length.map_or(Some(Ipv6Addr::BITS), |length| length.parse::<u32>().ok()?.checked_add(of_v4))?;
    let length = Some(length).filter(|length| *length <= Ipv6Addr::BITS)?;
    let behind = u128::MAX.checked_shr(length).unwrap_or(0);
    let start = u128::from(ip);
    Some((start & !behind, start | behind))
}

pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

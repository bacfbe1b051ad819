use super::dimension::{Dimension, count};
use super::names::Names;
use super::prefixes::Prefixes;
use super::signature::Signature;
use crate::identity::UserInfo;
use crate::request_info::RequestInfo;
use crate::seeded_hash::SeededHash;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{OnceLock, PoisonError, RwLock};

/// Number of ids stored inline before they spill to the heap. A request has one per dimension, two for a subresource, one for
/// each group and prefix that a rule names.
const INLINE: usize = 64;

/// The most ids of a user's name that are kept, its own and those of beginnings of it: an owner may write one for each letter.
const MAX_NAME_IDS: usize = 64;

/// The terms of a request and its user, as ids that rules know; by dimension, ascending. A term that no rule names is left out.
#[derive(Debug)]
pub(super) struct RequestTerms {
    inline: [u32; INLINE],
    len: usize,
    /// All ids, where they are more than fit; otherwise nothing is allocated.
    spilled: Vec<u32>,
    /// Start and end of each dimension's ids.
    bounds: [(u32, u32); Dimension::COUNT],
    /// A summary of all ids.
    pub(super) signature: Signature,
}

/// All dimensions' texts.
#[derive(Debug)]
pub(super) struct Vocabularies {
    /// In the order of [`Dimension::ALL`].
    pub(super) by_dimension: [TermTable; Dimension::COUNT],
}

impl RequestTerms {
    /// A request without terms.
    #[inline]
    pub(super) fn nothing() -> Self {
        RequestTerms {
            inline: [0; INLINE],
            len: 0,
            spilled: Vec::new(),
            bounds: [(0, 0); Dimension::COUNT],
            signature: Signature::NONE,
        }
    }

    /// These ids, which ascend, of these dimensions, which do as well.
    #[cfg(test)]
    pub(super) fn of_ids<const N: usize>(all: [(Dimension, &[u32]); N]) -> Self {
        let mut terms = RequestTerms::nothing();
        all.into_iter().for_each(|(dimension, ids)| terms.add_sorted(dimension, ids));
        terms
    }

    /// Ids of these dimensions as a user's groups bring them: in any order, and more than once.
    #[cfg(test)]
    pub(super) fn of_any_ids<const N: usize>(all: [(Dimension, &[u32]); N]) -> Self {
        let mut terms = RequestTerms::nothing();
        for (dimension, ids) in all {
            terms.add_dimension(dimension, |terms| ids.iter().for_each(|id| terms.add(Some(*id))));
        }
        terms
    }

    pub(super) fn of_user(user: &UserInfo, known: &Vocabularies) -> Self {
        let mut terms = RequestTerms::nothing();
        let [users, groups, ..] = &known.by_dimension;
        terms.add_dimension(Dimension::User, |terms| terms.add_text(users, user.name.as_bytes()));
        terms.add_dimension(Dimension::UserGroup, |terms| terms.add_groups(groups, user));
        terms
    }

    /// Adds the terms of the request to those of its user.
    pub(super) fn add_request(&mut self, info: &RequestInfo<'_>, known: &Vocabularies) {
        let [_, _, names, namespaces, paths, resources, verbs, api_groups, api_versions] = &known.by_dimension;
        self.add_dimension(Dimension::Verb, |terms| terms.add(verbs.name(&info.verb, b"")));
        if info.is_resource {
            self.add_dimension(Dimension::Resource, |terms| terms.add_resource(resources, info));
            self.add_dimension(Dimension::ApiGroup, |terms| terms.add(api_groups.name(info.api_group, b"")));
            self.add_dimension(Dimension::ApiVersion, |terms| terms.add(api_versions.name(info.api_version, b"")));
            self.add_dimension(Dimension::Namespace, |terms| terms.add(namespaces.name(info.namespace, b"")));
            self.add_dimension(Dimension::ResourceName, |terms| terms.add(names.name(&info.name, b"")));
        } else {
            self.add_dimension(Dimension::Path, |terms| terms.add_text(paths, info.path));
        }
    }

    /// The ids of one dimension.
    #[inline]
    pub(super) fn of_dimension(&self, dimension: Dimension) -> &[u32] {
        let (start, end) = self.bounds.get(dimension.index()).copied().unwrap_or_default();
        let all = if self.spilled.is_empty() { self.inline.as_slice() } else { self.spilled.as_slice() };
        all.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Adds the ids of one dimension, which are in ascending order already.
    fn add_sorted(&mut self, dimension: Dimension, ids: &[u32]) {
        let start = self.all().len();
        for id in ids {
            self.add(Some(*id));
        }
        self.signature.add(dimension, ids);
        self.set_bounds(dimension, start, ids.len());
    }

    /// Adds the ids of one dimension.
    #[inline]
    fn add_dimension(&mut self, dimension: Dimension, add: impl FnOnce(&mut Self)) {
        let start = self.all().len();
        add(self);
        let all = if self.spilled.is_empty() { self.inline.get_mut(..self.len) } else { Some(&mut *self.spilled) };
        let added = all.and_then(|all| all.get_mut(start..)).unwrap_or_default();
        if added.len() > 1 {
            added.sort_unstable();
            if added.array_windows().any(|[one, next]| one == next) {
                let distinct = keep_distinct(added);
                return self.shorten(dimension, start, distinct);
            }
        }
        self.signature.add(dimension, added);
        let len = added.len();
        self.set_bounds(dimension, start, len);
    }

    /// A request has fewer ids than a list of its user's groups has bytes.
    #[inline]
    fn set_bounds(&mut self, dimension: Dimension, start: usize, len: usize) {
        if let Some(bounds) = self.bounds.get_mut(dimension.index()) {
            *bounds = (count(start), count(start.saturating_add(len)));
        }
    }

    /// Adds the ids from a start on, of which so many are distinct and come first.
    #[cold]
    fn shorten(&mut self, dimension: Dimension, start: usize, len: usize) {
        let end = start.saturating_add(len);
        if self.spilled.is_empty() {
            self.len = end;
        } else {
            self.spilled.truncate(end);
        }
        self.set_bounds(dimension, start, len);
        let mut signature = self.signature;
        signature.add(dimension, self.of_dimension(dimension));
        self.signature = signature;
    }

    fn add_resource(&mut self, resources: &TermTable, info: &RequestInfo<'_>) {
        self.add(resources.name(info.resource, info.subresource));
        if !info.subresource.is_empty() {
            self.add(resources.name(b"*", info.subresource));
        }
    }

    fn add_text(&mut self, vocabulary: &TermTable, text: &[u8]) {
        self.add(vocabulary.name(text, b""));
        for id in vocabulary.prefixes(text) {
            self.add(Some(id));
        }
    }

    fn add_groups(&mut self, groups: &TermTable, user: &UserInfo) {
        for group in &user.groups {
            self.add(groups.name(group.as_bytes(), b""));
        }
    }

    #[inline]
    fn add(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        match self.inline.get_mut(self.len) {
            Some(place) => {
                *place = id;
                self.len = self.len.saturating_add(1);
            }
            None => self.spill(id),
        }
    }

    #[cold]
    fn spill(&mut self, id: u32) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(id);
    }

    fn all(&self) -> &[u32] {
        if self.spilled.is_empty() { self.inline.get(..self.len).unwrap_or_default() } else { &self.spilled }
    }
}

/// Moves the first of equal ids to the front, as a user may list a group twice. Returns their number.
#[cold]
fn keep_distinct(ids: &mut [u32]) -> usize {
    let (mut len, mut before) = (0_usize, None);
    for at in 0..ids.len() {
        let Some(id) = ids.get(at).copied() else { break };
        if before.replace(id) != Some(id) {
            ids.get_mut(len).into_iter().for_each(|place| *place = id);
            len = len.saturating_add(1);
        }
    }
    len
}

/// The texts of one dimension, while rules are read. A text's id says which text it is, nothing more.
#[derive(Debug, Default)]
pub(super) struct TermTableBuilder<'c> {
    names: HashMap<Cow<'c, str>, u32, SeededHash>,
    subresources: HashMap<(&'c str, &'c str), u32, SeededHash>,
    prefixes: BTreeMap<&'c str, u32>,
}

impl<'c> TermTableBuilder<'c> {
    pub(super) fn name(&mut self, name: impl Into<Cow<'c, str>>) -> u32 {
        let next = self.next();
        *self.names.entry(name.into()).or_insert(next)
    }

    fn subresource(&mut self, resource: &'c str, subresource: &'c str) -> u32 {
        let next = self.next();
        *self.subresources.entry((resource, subresource)).or_insert(next)
    }

    fn prefix(&mut self, text: &'c str) -> u32 {
        let next = self.next();
        *self.prefixes.entry(text).or_insert(next)
    }

    /// More entries than ids can number do not fit into any xDS message.
    fn next(&self) -> u32 {
        let tables = [self.names.len(), self.subresources.len(), self.prefixes.len()];
        u32::try_from(tables.into_iter().fold(0, usize::saturating_add)).unwrap_or(u32::MAX)
    }

    /// Reads an entry other than a lone `*`, without its leading `-`. `None` covers nothing.
    pub(super) fn read(&mut self, dimension: Dimension, entry: &'c str) -> Option<u32> {
        Some(match dimension {
            Dimension::User | Dimension::Path => match entry.strip_suffix('*') {
                Some(start) => self.prefix(start),
                None => self.name(entry),
            },
            Dimension::Resource => match entry.split_once('/') {
                Some((_, "*" | "")) => return None,
                Some((resource, subresource)) => self.subresource(resource, subresource),
                None => self.name(entry),
            },
            _ => self.name(entry),
        })
    }

    pub(super) fn freeze(&self) -> TermTable {
        let subresources = self.subresources.iter().map(|(both, id)| (*both, *id));
        let mut names: Vec<_> =
            self.names.iter().map(|(name, id)| ((name.as_ref(), ""), *id)).chain(subresources).collect();
        names.sort_unstable_by_key(|(_, id)| *id);
        TermTable {
            names: Names::new(names.into_iter()),
            prefixes: Prefixes::new(self.prefixes.iter().map(|(text, id)| (*text, *id))),
        }
    }
}

/// The texts of one dimension, to look up a request's terms.
#[derive(Debug)]
pub(super) struct TermTable {
    names: Names,
    prefixes: Prefixes,
}

impl TermTable {
    pub(super) fn name(&self, first: &[u8], second: &[u8]) -> Option<u32> {
        self.names.find(first, second)
    }

    fn prefixes(&self, subject: &[u8]) -> impl Iterator<Item = u32> {
        self.prefixes.matching(subject)
    }
}

/// The ids of a user in the rules of one configuration: its name and groups. Kept with the user, so that texts which never
/// change are not looked up for each request; replaced when another configuration asks.
#[derive(Debug, Default)]
pub struct UserMatchCache {
    real: RwLock<CachedTerms>,
    /// For the policies of a shadow, once there is one: the real ones are found as fast as without.
    shadow: OnceLock<Box<RwLock<CachedTerms>>>,
}

#[derive(Debug, Default)]
struct CachedTerms {
    /// Of which [`super::Policies`]; none has the number 0.
    policies: u64,
    /// The first of the ids are the user's, the others its groups'.
    users: usize,
    ids: Box<[u32]>,
}

impl UserMatchCache {
    /// The terms of a user, remembered for these policies or else worked out.
    pub(super) fn terms(
        &self,
        policies: u64,
        is_shadow: bool,
        work_out: impl FnOnce() -> RequestTerms,
    ) -> RequestTerms {
        let cached = if is_shadow { self.shadow.get_or_init(Box::default) } else { &self.real };
        let known = cached.read().unwrap_or_else(PoisonError::into_inner);
        if known.policies == policies {
            return known.terms();
        }
        drop(known);
        let terms = work_out();
        let (user, groups) = (terms.of_dimension(Dimension::User), terms.of_dimension(Dimension::UserGroup));
        if user.len() > MAX_NAME_IDS {
            return terms;
        }
        let known = CachedTerms { policies, users: user.len(), ids: [user, groups].concat().into() };
        *cached.write().unwrap_or_else(PoisonError::into_inner) = known;
        terms
    }

    /// The most memory that ids of a user take, in bytes: for the real policies and for a shadow.
    pub fn most_bytes(user: &UserInfo) -> usize {
        // The name itself, and a beginning of each length.
        let of_name = user.name.len().saturating_add(2).min(MAX_NAME_IDS);
        let ids = of_name.saturating_add(user.groups.len());
        ids.saturating_mul(size_of::<u32>()).saturating_mul(2)
    }

    /// The memory that ids take, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let caches = [Some(&self.real), self.shadow.get().map(|shadow| &**shadow)].into_iter().flatten();
        caches.map(|cache| size_of_val(&*cache.read().unwrap().ids)).sum()
    }
}

impl CachedTerms {
    fn terms(&self) -> RequestTerms {
        let (user, groups) = self.ids.split_at_checked(self.users).unwrap_or_default();
        let mut terms = RequestTerms::nothing();
        terms.add_sorted(Dimension::User, user);
        terms.add_sorted(Dimension::UserGroup, groups);
        terms
    }
}

use super::dimension::Dimension;
use super::signature::Signature;
use super::term_table::TermTable;
use crate::identity::UserInfo;
use crate::request_info::RequestInfo;

/// So many ids lie on the stack. A request has one per dimension, two for a subresource, one for each group and prefix
/// that a rule names.
const INLINE: usize = 64;

/// What a request and its user say, as ids that rules know; by dimension, ascending. What no rule names is left out.
#[derive(Debug)]
pub(super) struct RequestTerms {
    inline: [u32; INLINE],
    len: usize,
    /// All ids, where they are more than fit; otherwise nothing is allocated.
    spilled: Vec<u32>,
    /// Where each dimension's ids begin and end.
    bounds: [(usize, usize); Dimension::COUNT],
    /// All of it, roughly.
    pub(super) lanes: Signature,
}

/// All dimensions' texts.
#[derive(Debug)]
pub(super) struct Vocabularies {
    /// In the order of [`Dimension::ALL`].
    pub(super) by_dimension: [TermTable; Dimension::COUNT],
}

impl RequestTerms {
    /// Of a request about which nothing is said.
    #[inline]
    pub(super) fn nothing() -> Self {
        RequestTerms {
            inline: [0; INLINE],
            len: 0,
            spilled: Vec::new(),
            bounds: [(0, 0); Dimension::COUNT],
            lanes: Signature::NONE,
        }
    }

    pub(super) fn of_user(user: &UserInfo, known: &Vocabularies) -> Self {
        let mut facts = RequestTerms::nothing();
        let [users, groups, ..] = &known.by_dimension;
        facts.say(Dimension::User, |facts| facts.add_text(users, user.name.as_bytes()));
        facts.say(Dimension::UserGroup, |facts| facts.add_groups(groups, user));
        facts
    }

    /// Adds what the request says to what its user does.
    pub(super) fn add_request(&mut self, info: &RequestInfo<'_>, known: &Vocabularies) {
        let [_, _, names, namespaces, paths, resources, verbs, api_groups, api_versions] = &known.by_dimension;
        self.say(Dimension::Verb, |facts| facts.add(verbs.name(&info.verb, b"")));
        if info.is_resource {
            self.say(Dimension::Resource, |facts| facts.add_resource(resources, info));
            self.say(Dimension::ApiGroup, |facts| facts.add(api_groups.name(info.api_group, b"")));
            self.say(Dimension::ApiVersion, |facts| facts.add(api_versions.name(info.api_version, b"")));
            self.say(Dimension::Namespace, |facts| facts.add(namespaces.name(info.namespace, b"")));
            self.say(Dimension::ResourceName, |facts| facts.add(names.name(&info.name, b"")));
        } else {
            self.say(Dimension::Path, |facts| facts.add_text(paths, info.path));
        }
    }

    /// The ids of one dimension.
    pub(super) fn of(&self, dimension: Dimension) -> &[u32] {
        let (start, end) = self.bounds.get(dimension.index()).copied().unwrap_or_default();
        self.all().get(start..end).unwrap_or_default()
    }

    /// Adds what one dimension has to say, in ascending order already.
    pub(super) fn add_sorted(&mut self, dimension: Dimension, ids: &[u32]) {
        let start = self.all().len();
        for id in ids {
            self.add(Some(*id));
        }
        self.lanes.say(dimension, ids);
        if let Some(bounds) = self.bounds.get_mut(dimension.index()) {
            *bounds = (start, start.saturating_add(ids.len()));
        }
    }

    /// Adds what one dimension has to say.
    #[inline]
    fn say(&mut self, dimension: Dimension, add: impl FnOnce(&mut Self)) {
        let start = self.all().len();
        add(self);
        let all = if self.spilled.is_empty() { self.inline.get_mut(..self.len) } else { Some(&mut *self.spilled) };
        let added = all.and_then(|all| all.get_mut(start..)).unwrap_or_default();
        if added.len() > 1 {
            added.sort_unstable();
        }
        self.lanes.say(dimension, added);
        let end = start.saturating_add(added.len());
        if let Some(bounds) = self.bounds.get_mut(dimension.index()) {
            *bounds = (start, end);
        }
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

use super::dimension::Dimension;
use super::lanes::Lanes;
use super::vocabulary::{ANY_GROUP, Vocabulary};
use crate::identity::UserInfo;
use crate::request_info::RequestInfo;

/// So many ids lie on the stack. A request has one per dimension, two for a subresource, one for each group and prefix
/// that a rule names.
const INLINE: usize = 64;

/// What a request and its user say, as ids that rules know; by dimension, ascending. What no rule names is left out.
#[derive(Debug)]
pub(super) struct Facts {
    inline: [u32; INLINE],
    len: usize,
    /// All ids, where they are more than fit; otherwise nothing is allocated.
    spilled: Vec<u32>,
    ends: [usize; Dimension::COUNT],
    /// All of it, roughly.
    pub(super) lanes: Lanes,
}

/// All dimensions' texts.
#[derive(Debug)]
pub(super) struct Vocabularies {
    pub(super) by_dimension: [Vocabulary; Dimension::COUNT],
    /// Whether a rule asks for a user without any group.
    pub(super) names_any_group: bool,
}

impl Facts {
    pub(super) fn of_request(info: &RequestInfo<'_>, user: &UserInfo, known: &Vocabularies) -> Self {
        let mut facts = Facts { inline: [0; INLINE], len: 0, spilled: Vec::new(), ends: [0; Dimension::COUNT], lanes: Lanes::NONE };
        for (dimension, vocabulary) in Dimension::ALL.into_iter().zip(&known.by_dimension) {
            let start = facts.len();
            match dimension {
                Dimension::User => facts.add_text(vocabulary, user.name.as_bytes()),
                Dimension::UserGroup => facts.add_groups(vocabulary, user, known.names_any_group),
                Dimension::Verb => facts.add(vocabulary.name(&info.verb, b"")),
                Dimension::Path if !info.is_resource => facts.add_text(vocabulary, info.path),
                _ if info.is_resource => facts.add_target(dimension, vocabulary, info),
                _ => {}
            }
            facts.close(dimension, start);
        }
        facts
    }

    /// The ids of one dimension.
    pub(super) fn of(&self, dimension: Dimension) -> &[u32] {
        let index = dimension.index();
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(start);
        self.all().get(start..end).unwrap_or_default()
    }

    fn add_target(&mut self, dimension: Dimension, vocabulary: &Vocabulary, info: &RequestInfo<'_>) {
        match dimension {
            Dimension::ResourceName => self.add(vocabulary.name(&info.name, b"")),
            Dimension::Namespace => self.add(vocabulary.name(info.namespace, b"")),
            Dimension::ApiGroup => self.add(vocabulary.name(info.api_group, b"")),
            Dimension::ApiVersion => self.add(vocabulary.name(info.api_version, b"")),
            Dimension::Resource => {
                self.add(vocabulary.name(info.resource, info.subresource));
                if !info.subresource.is_empty() {
                    self.add(vocabulary.name(b"*", info.subresource));
                }
            }
            Dimension::User | Dimension::UserGroup | Dimension::Path | Dimension::Verb => {}
        }
    }

    fn add_text(&mut self, vocabulary: &Vocabulary, text: &[u8]) {
        self.add(vocabulary.name(text, b""));
        for id in vocabulary.prefixes(text) {
            self.add(Some(id));
        }
    }

    fn add_groups(&mut self, vocabulary: &Vocabulary, user: &UserInfo, names_any_group: bool) {
        for group in &user.groups {
            self.add(vocabulary.name(group.as_bytes(), b""));
        }
        if names_any_group && !user.groups.is_empty() {
            self.add(Some(ANY_GROUP));
        }
    }

    fn add(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        if self.spilled.is_empty() {
            if let Some(place) = self.inline.get_mut(self.len) {
                *place = id;
                self.len = self.len.saturating_add(1);
                return;
            }
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(id);
    }

    fn close(&mut self, dimension: Dimension, start: usize) {
        let all = if self.spilled.is_empty() { self.inline.get_mut(..self.len) } else { Some(&mut *self.spilled) };
        if let Some(added) = all.and_then(|all| all.get_mut(start..)) {
            if added.len() > 1 {
                added.sort_unstable();
            }
            self.lanes.say(dimension, added);
        }
        let end = self.len();
        if let Some(place) = self.ends.get_mut(dimension.index()) {
            *place = end;
        }
    }

    fn all(&self) -> &[u32] {
        if self.spilled.is_empty() { self.inline.get(..self.len).unwrap_or_default() } else { &self.spilled }
    }

    fn len(&self) -> usize {
        self.all().len()
    }
}

use std::collections::BTreeMap;

use portcullis_api::status::TokenKeysFacts;
use portcullis_xds::ChangedNames;

use super::super::changed_keys::changed_keys;

/// The sources of keys of tokens of each object, by its name and UID, for its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct KeysByObject(BTreeMap<(String, String), Vec<TokenKeysFacts>>);

impl KeysByObject {
    /// The sources of an object; none if the control plane reads no keys for it.
    pub(in super::super) fn facts(&self, name: &str, uid: Option<&str>) -> Vec<TokenKeysFacts> {
        let key = (name.to_owned(), uid.unwrap_or_default().to_owned());
        self.0.get(&key).cloned().unwrap_or_default()
    }

    /// Adds the names of objects whose sources are otherwise than before.
    pub(in super::super) fn add_changed(&self, before: &Self, changed: &mut ChangedNames) {
        changed_keys(&before.0, &self.0).into_iter().for_each(|(name, _)| changed.add(name.as_str()));
    }

    /// Sources of these names, of objects of files.
    #[cfg(test)]
    pub(in super::super) fn of_sources(all: &[(String, String)]) -> Self {
        let mut keys = Self::default();
        for (name, source) in all {
            let source = TokenKeysFacts { source: source.clone(), keys: None, has_written: false, failed: None };
            keys.add(name, "", source);
        }
        keys
    }

    pub(super) fn add(&mut self, name: &str, uid: &str, source: TokenKeysFacts) {
        self.0.entry((name.to_owned(), uid.to_owned())).or_default().push(source);
    }
}

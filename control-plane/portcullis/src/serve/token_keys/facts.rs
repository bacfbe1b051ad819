use std::collections::BTreeMap;

use portcullis_api::status::TokenKeysFacts;

/// The sources of keys of tokens of each object, by its name and UID, for its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct KeysByObject(BTreeMap<(String, String), Vec<TokenKeysFacts>>);

impl KeysByObject {
    /// The sources of an object; none if the control plane reads no keys for it.
    pub(in super::super) fn facts(&self, name: &str, uid: Option<&str>) -> Vec<TokenKeysFacts> {
        let key = (name.to_owned(), uid.unwrap_or_default().to_owned());
        self.0.get(&key).cloned().unwrap_or_default()
    }

    pub(super) fn add(&mut self, name: &str, uid: &str, source: TokenKeysFacts) {
        self.0.entry((name.to_owned(), uid.to_owned())).or_default().push(source);
    }
}

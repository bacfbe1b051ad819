use std::collections::BTreeMap;

use portcullis_api::status::TokenKeysFacts;

/// The sources of keys of tokens of each object, for its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct KeysByObject(BTreeMap<String, ObjectKeys>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ObjectKeys {
    uid: String,
    sources: Vec<TokenKeysFacts>,
}

impl KeysByObject {
    /// The sources of an object; none if the control plane reads no keys for it.
    pub(in super::super) fn facts(&self, name: &str, uid: Option<&str>) -> Vec<TokenKeysFacts> {
        let keys = self.0.get(name).filter(|keys| keys.uid == uid.unwrap_or_default());
        keys.map(|keys| keys.sources.clone()).unwrap_or_default()
    }

    pub(super) fn add(&mut self, name: &str, uid: &str, source: TokenKeysFacts) {
        let keys = self.0.entry(name.to_owned()).or_default();
        uid.clone_into(&mut keys.uid);
        keys.sources.push(source);
    }
}

//! Keys that a cluster's servers have shown, in its document: a member of its status that no source may bring, so that translation
//! sees one document with everything that it depends on.

use serde_json::{Value, json};

use crate::types::UpstreamCluster;

/// The member of `status`.
const MEMBER: &str = "serverKeys";

/// The answers of a cluster's servers to the question for the keys of their service accounts' tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerKeys {
    /// The last JSON Web Key Set, and the time up to which it holds, in seconds since 1970.
    pub keys: Option<(String, u64)>,
    /// Why the last question had no answer.
    pub error: Option<String>,
}

/// Puts keys into a document, in the place of all that it brings or had.
pub fn put_server_keys(document: &mut Value, found: &ServerKeys) {
    let (keys, until) = found.keys.as_ref().map(|(keys, until)| (keys.as_str(), *until)).unzip();
    let written = json!({"keys": keys, "validUntil": until, "error": found.error});
    let Some(status) = document.as_object_mut().map(|fields| fields.entry("status").or_insert_with(|| json!({})))
    else {
        return;
    };
    if !status.is_object() {
        *status = json!({});
    }
    if let Some(members) = status.as_object_mut() {
        members.insert(MEMBER.to_owned(), written);
    }
}

/// The keys that [`put_server_keys`] put into the document of an object.
pub(crate) fn server_keys_of(raw: &UpstreamCluster) -> ServerKeys {
    let member = |name| raw.status.as_ref()?.get(MEMBER)?.get(name);
    let text = |name| member(name).and_then(Value::as_str).map(str::to_owned);
    let keys = text("keys").zip(member("validUntil").and_then(Value::as_u64));
    ServerKeys { keys, error: text("error") }
}

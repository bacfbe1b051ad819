//! Keys that a cluster's servers and issuers have shown, in its document: a member of its status that no source can bring, so that
//! translation sees one document with everything that it depends on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::drawn_name::drawn_name;

/// The member of `status`.
static MEMBER: LazyLock<String> = LazyLock::new(|| drawn_name("shownKeys"));
const SERVERS: &str = "servers";
const ISSUERS: &str = "issuers";

/// A source of keys of tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeySource {
    /// The cluster's servers, for all its issuers with `jwks.fromServers`.
    Servers,
    /// A URL, for the issuer with this `url`.
    Issuer(String),
}

/// The answers to the questions for the keys of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownKeys {
    /// The last JSON Web Key Set, and the time up to which it holds, in seconds since 1970.
    pub keys: Option<(String, u64)>,
    /// Why the last question had no answer.
    pub error: Option<String>,
}

/// Puts keys into a document, in the place of all that it had.
pub fn put_shown_keys(document: &mut Value, found: &BTreeMap<KeySource, ShownKeys>) {
    let of = |source: &KeySource| found.get(source).map(written);
    let issuers = found.keys().filter_map(|source| match source {
        KeySource::Servers => None,
        KeySource::Issuer(url) => Some((url.clone(), of(source)?)),
    });
    let written = json!({
        SERVERS: of(&KeySource::Servers), ISSUERS: issuers.collect::<serde_json::Map<_, _>>(),
    });
    let Some(status) = document.as_object_mut().map(|fields| fields.entry("status").or_insert_with(|| json!({})))
    else {
        return;
    };
    if !status.is_object() {
        *status = json!({});
    }
    if let Some(members) = status.as_object_mut() {
        members.insert(MEMBER.clone(), written);
    }
}

fn written(shown: &ShownKeys) -> Value {
    let (keys, until) = shown.keys.as_ref().map(|(keys, until)| (keys.as_str(), *until)).unzip();
    json!({"keys": keys, "validUntil": until, "error": shown.error})
}

/// The keys of a source that [`put_shown_keys`] put into the document with this status.
#[must_use]
pub fn shown_keys_of(status: Option<&Value>, source: &KeySource) -> ShownKeys {
    let all = status.and_then(|status| status.get(MEMBER.as_str()));
    let shown = all.and_then(|all| match source {
        KeySource::Servers => all.get(SERVERS),
        KeySource::Issuer(url) => all.get(ISSUERS)?.get(url),
    });
    let member = |name| shown?.get(name);
    let text = |name| member(name).and_then(Value::as_str).map(str::to_owned);
    let keys = text("keys").zip(member("validUntil").and_then(Value::as_u64));
    ShownKeys { keys, error: text("error") }
}

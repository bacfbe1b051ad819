use portcullis_api::read_keys;
use serde_json::{Value, json};

/// Whether an object has keys read.
pub(super) fn asks(document: &Value) -> bool {
    jwks(document).any(|(_, jwks)| is_from_servers(jwks) || is_at_url(jwks))
}

/// Whether an object has an issuer whose keys its servers have.
pub(super) fn asks_servers(document: &Value) -> bool {
    jwks(document).any(|(_, jwks)| is_from_servers(jwks))
}

/// Whether all such issuers of an object have keys in the object itself, which hold while the servers' are not known.
pub(super) fn has_written_for_servers(document: &Value) -> bool {
    jwks(document).filter(|(_, jwks)| is_from_servers(jwks)).all(|(_, jwks)| has_written(jwks))
}

/// An issuer of an object whose keys are at a URL.
pub(super) struct UrlSource {
    pub(super) issuer: String,
    /// All parts of the object that a question depends on.
    pub(super) asked: Value,
    /// Whether the object has keys of it itself, which hold while others are not known.
    pub(super) has_written: bool,
}

/// The issuers of an object whose keys are at a URL.
pub(super) fn asked_at_urls(document: &Value) -> Vec<UrlSource> {
    let uid = member(document, &["metadata", "uid"]).cloned().unwrap_or_default();
    let at_url = jwks(document).filter(|(_, jwks)| is_at_url(jwks));
    let asked = |(issuer, jwks): (&str, &Value)| {
        let part = |member: &str| jwks.get(member).cloned().unwrap_or_default();
        let asked = json!([issuer, part("url"), part("fromIssuer"), part("certificateAuthority"), uid]);
        UrlSource { issuer: issuer.to_owned(), asked, has_written: has_written(jwks) }
    };
    at_url.map(asked).collect()
}

pub(super) fn name_of(document: &Value) -> &str {
    member(document, &["metadata", "name"]).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn uid_of(document: &Value) -> &str {
    member(document, &["metadata", "uid"]).and_then(Value::as_str).unwrap_or_default()
}

/// Each issuer's URL and keys.
fn jwks(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let issuers = member(document, &["spec", "portcullis", "tokens", "issuers"]);
    let issuers = issuers.and_then(Value::as_array).into_iter().flatten();
    issuers.filter_map(|issuer| Some((issuer.get("url")?.as_str()?, issuer.get("jwks")?)))
}

/// A member of a document. Not by a JSON pointer, which is taken apart for each of thousands of documents.
fn member<'a>(document: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(document, |value, name| value.get(name))
}

/// Whether a key that can be used is in the object.
fn has_written(jwks: &Value) -> bool {
    let inline = jwks.get("inline").and_then(Value::as_str).filter(|text| !text.is_empty());
    inline.is_some_and(|text| read_keys(text).is_ok_and(|keys| !keys.is_empty()))
}

fn is_from_servers(jwks: &Value) -> bool {
    jwks.get("fromServers") == Some(&Value::Bool(true))
}

fn is_at_url(jwks: &Value) -> bool {
    let has_url = jwks.get("url").and_then(Value::as_str).is_some_and(|url| !url.is_empty());
    has_url || jwks.get("fromIssuer") == Some(&Value::Bool(true))
}

use serde_json::{Value, json};

const ISSUERS: &str = "/spec/portcullis/tokens/issuers";

/// Whether an object has keys read.
pub(super) fn asks(document: &Value) -> bool {
    jwks(document).any(|(_, jwks)| is_from_servers(jwks) || is_at_url(jwks))
}

/// Whether an object has an issuer whose keys its servers have.
pub(super) fn asks_servers(document: &Value) -> bool {
    jwks(document).any(|(_, jwks)| is_from_servers(jwks))
}

/// The issuers of an object whose keys are at a URL, and all parts of the object that a question to each depends on.
pub(super) fn asked_at_urls(document: &Value) -> Vec<(String, Value)> {
    let uid = document.pointer("/metadata/uid").cloned().unwrap_or_default();
    let at_url = jwks(document).filter(|(_, jwks)| is_at_url(jwks));
    let asked = |(issuer, jwks): (&str, &Value)| {
        let part = |member: &str| jwks.get(member).cloned().unwrap_or_default();
        let asked = json!([issuer, part("url"), part("fromIssuer"), part("certificateAuthority"), uid]);
        (issuer.to_owned(), asked)
    };
    at_url.map(asked).collect()
}

pub(super) fn name_of(document: &Value) -> &str {
    document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Each issuer's URL and keys.
fn jwks(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let issuers = document.pointer(ISSUERS).and_then(Value::as_array).into_iter().flatten();
    issuers.filter_map(|issuer| Some((issuer.get("url")?.as_str()?, issuer.get("jwks")?)))
}

fn is_from_servers(jwks: &Value) -> bool {
    jwks.get("fromServers") == Some(&Value::Bool(true))
}

fn is_at_url(jwks: &Value) -> bool {
    let has_url = jwks.get("url").and_then(Value::as_str).is_some_and(|url| !url.is_empty());
    has_url || jwks.get("fromIssuer") == Some(&Value::Bool(true))
}

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The account of a token, as far as the token itself names it: a JSON Web Token (RFC 7519) names issuer, subject and the
/// issuer's key, and a renewed one names the same. `None` for any other token.
///
/// Nothing is verified: the result shows which of an operator's own tokens are of one account, and authenticates no user.
pub fn token_account(token: &[u8]) -> Option<Vec<u8>> {
    let mut parts = token.split(|byte| *byte == b'.');
    let (header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (header, payload) = (object(header)?, object(payload)?);
    let text = |object: &Value, name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    let (issuer, subject) = (text(&payload, "iss")?, text(&payload, "sub")?);
    let key = text(&header, "kid").unwrap_or_default();
    // Quoted, so that no two run together.
    Some(format!("{issuer:?} {subject:?} {key:?}").into_bytes())
}

fn object(part: &[u8]) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice::<Value>(&bytes).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, payload: &str, signature: &str) -> Vec<u8> {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{signature}", part(header), part(payload)).into_bytes()
    }

    #[test]
    fn renewed_tokens_are_of_one_account() {
        let header = r#"{"alg":"RS256","kid":"k1"}"#;
        let of = |payload: &str| token_account(&token(header, payload, "c2ln"));
        let first = of(r#"{"iss":"https://a","sub":"system:serviceaccount:n:gateway","exp":1}"#);
        assert!(first.is_some());
        assert_eq!(first, of(r#"{"exp":2,"sub":"system:serviceaccount:n:gateway","iss":"https://a"}"#));
        assert_ne!(first, of(r#"{"iss":"https://a","sub":"system:serviceaccount:n:other"}"#));
        assert_ne!(first, of(r#"{"iss":"https://b","sub":"system:serviceaccount:n:gateway"}"#));
        let other_key = r#"{"alg":"RS256","kid":"k2"}"#;
        let payload = r#"{"iss":"https://a","sub":"system:serviceaccount:n:gateway"}"#;
        assert_ne!(first, token_account(&token(other_key, payload, "c2ln")));
        assert_ne!(of(r#"{"iss":"a","sub":"b\" \"c"}"#), of(r#"{"iss":"a\" \"b","sub":"c"}"#));
    }

    #[test]
    fn other_tokens_name_no_account() {
        let whole = token(r#"{"alg":"none"}"#, r#"{"iss":"a","sub":"b"}"#, "");
        assert!(token_account(&whole).is_some());
        for payload in ["{}", "[]", "1", r#"{"sub":"b"}"#, r#"{"iss":"a"}"#, r#"{"iss":"a","sub":1}"#, "not JSON"] {
            assert_eq!(token_account(&token("{}", payload, "c2ln")), None, "{payload}");
        }
        for other in [&b"opaque"[..], b"", b"..", b"a.b", b"a.b.c", b"a.b.c.d"] {
            assert_eq!(token_account(other), None);
        }
    }
}

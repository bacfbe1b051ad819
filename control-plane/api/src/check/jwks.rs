use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_filter_config::{TokenIssuer, TokenKey, TokenPublicKey};
use serde::Deserialize;
use serde_json::Value;

use crate::bounds::MAX_JWKS;

/// Why a JSON Web Key Set cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwksError {
    /// Its size.
    #[error("is larger than {MAX_JWKS} bytes")]
    TooLarge,
    /// Its form.
    #[error("is no JSON Web Key Set: an object with a list of keys")]
    Form,
    /// The number of keys that can be used.
    #[error("has more than {} keys", TokenIssuer::MAX_KEYS)]
    TooMany,
    /// Two keys with one id: a token's signature is checked with one key.
    #[error("has two keys with one kid")]
    Repeated,
    /// A key that is no public one.
    #[error("has a private key: change it, and write its public part")]
    Private,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// A key, as far as its kind is known here.
#[derive(Deserialize)]
struct WebKey {
    kty: String,
    kid: String,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default, rename = "use")]
    usage: Option<String>,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

/// The keys of a JSON Web Key Set that verify signatures here. Others are left out: a set may have keys for other uses, and of kinds
/// that are not known yet.
///
/// # Errors
/// [`JwksError`].
pub fn read_keys(text: &str) -> Result<Vec<TokenKey>, JwksError> {
    if text.len() > MAX_JWKS {
        return Err(JwksError::TooLarge);
    }
    let KeySet { keys } = serde_json::from_str(text).map_err(|_| JwksError::Form)?;
    if keys.iter().any(|key| key.get("d").is_some()) {
        return Err(JwksError::Private);
    }
    let read = |key| read_key(serde_json::from_value(key).ok()?);
    let mut keys: Vec<TokenKey> = keys.into_iter().filter_map(read).collect();
    // Each server may list its keys in another order.
    keys.sort_by(|one, other| one.id.cmp(&other.id));
    // A kube-apiserver lists a key as often as its files have it.
    keys.dedup();
    if keys.windows(2).any(|pair| matches!(pair, [one, other] if one.id == other.id)) {
        return Err(JwksError::Repeated);
    }
    if keys.len() > TokenIssuer::MAX_KEYS { Err(JwksError::TooMany) } else { Ok(keys) }
}

fn read_key(WebKey { kty, kid, alg, usage, crv, n, e, x, y }: WebKey) -> Option<TokenKey> {
    if kid.is_empty() || usage.is_some_and(|usage| usage != "sig") {
        return None;
    }
    let (key, algorithms): (_, &[&str]) = match (&*kty, &*crv) {
        ("RSA", _) => {
            let (modulus, exponent) = (number(&n)?, number(&e)?);
            // The high bit says whether the key is as long as its bytes.
            let is_long = (256..=512).contains(&modulus.len()) && (modulus.len() > 256 || modulus.first()? & 0x80 != 0);
            if !is_long || exponent.len() > 4 {
                return None;
            }
            (TokenPublicKey::Rsa { n, e }, &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
        }
        ("EC", "P-256") if has_length(&x, 32) && has_length(&y, 32) => (TokenPublicKey::P256 { x, y }, &["ES256"]),
        ("EC", "P-384") if has_length(&x, 48) && has_length(&y, 48) => (TokenPublicKey::P384 { x, y }, &["ES384"]),
        _ => return None,
    };
    let is_for_signatures = alg.as_deref().is_none_or(|alg| algorithms.contains(&alg));
    is_for_signatures.then_some(TokenKey { id: kid, algorithm: alg, key })
}

fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let start = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes.get(start..)?.to_vec())
}

fn has_length(text: &str, length: usize) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == length)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn modulus(length: usize, first: u8) -> String {
        let mut bytes = vec![1; length];
        bytes[0] = first;
        URL_SAFE_NO_PAD.encode(bytes)
    }

    #[test]
    fn keys_that_cannot_verify_are_left_out() {
        let good =
            json!({"kty": "RSA", "kid": "a", "use": "sig", "alg": "RS256", "n": modulus(256, 0x80), "e": "AQAB"});
        let keys = |field: &str, value: Value| {
            let mut key = good.clone();
            key[field] = value;
            read_keys(&json!({"keys": [key]}).to_string()).unwrap().len()
        };
        assert_eq!(keys("x5t", json!("thumb")), 1, "what is not known changes nothing");
        assert_eq!(keys("n", json!(modulus(257, 0))), 0, "a zero in front makes it no longer");
        assert_eq!(keys("n", json!(modulus(512, 1))), 1);
        let useless = [
            ("kty", json!("oct")),
            ("kty", json!("OKP")),
            ("kid", json!("")),
            ("kid", Value::Null),
            ("use", json!("enc")),
            ("alg", json!("RSA-OAEP")),
            ("alg", json!("ES256")),
            ("alg", json!("HS256")),
            ("n", json!(modulus(256, 0x7f))),
            ("n", json!(modulus(128, 0x80))),
            ("n", json!(modulus(513, 0x80))),
            ("n", json!("!")),
            ("e", json!("")),
            ("e", json!("AAAA")),
            ("e", json!("AQABAQAB")),
        ];
        for (field, value) in useless {
            assert_eq!(keys(field, value.clone()), 0, "{field} {value}");
        }
    }

    #[test]
    fn key_set_is_refused_if_it_is_none_or_shows_a_private_key() {
        assert_eq!(read_keys("[]"), Err(JwksError::Form));
        assert_eq!(read_keys(&" ".repeat(MAX_JWKS + 1)), Err(JwksError::TooLarge));
        assert_eq!(read_keys(r#"{"keys":[{"kty":"RSA","d":"x"}]}"#), Err(JwksError::Private));
        let x = URL_SAFE_NO_PAD.encode([1; 32]);
        let key = |id: usize| json!({"kty": "EC", "crv": "P-256", "kid": format!("{id:02}"), "x": x, "y": x});
        let read = |keys: Vec<Value>| read_keys(&json!({"keys": keys}).to_string()).map(|keys| keys.len());
        assert_eq!(read((0..32).map(key).collect()), Ok(32));
        assert_eq!(read((0..33).map(key).collect()), Err(JwksError::TooMany));
    }

    #[test]
    fn key_id_names_one_key() {
        let coordinate = |byte| URL_SAFE_NO_PAD.encode([byte; 32]);
        let key =
            |id: &str, byte| json!({"kty": "EC", "crv": "P-256", "kid": id, "x": coordinate(byte), "y": coordinate(1)});
        let read = |keys: Vec<Value>| read_keys(&json!({"keys": keys}).to_string()).map(|keys| keys.len());
        assert_eq!(read(vec![key("a", 1), key("b", 1), key("a", 1)]), Ok(2), "the same key twice");
        assert_eq!(read(vec![key("a", 1), key("b", 1), key("a", 2)]), Err(JwksError::Repeated));
    }
}

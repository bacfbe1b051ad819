mod accepted;
mod signatures;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_filter_config::{PrefixedClaim, TokenIssuer, TokenKey, TokenPublicKey, TokenUsers};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

pub(super) use super::*;

pub(crate) const URL: &str = "https://issuer.example.com";
pub(crate) const KEY_ID: &str = "k1";

/// An issuer that signs.
pub(crate) struct Signer(EcdsaKeyPair);

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(crate) fn new() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Signer(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    pub(crate) fn key(&self, id: &str) -> TokenKey {
        let point = self.0.public_key().as_ref();
        let key = TokenPublicKey::P256 { x: encode(&point[1..33]), y: encode(&point[33..]) };
        TokenKey { id: id.to_owned(), algorithm: None, key }
    }

    /// Tokens of service accounts.
    pub(crate) fn issuer(&self) -> TokenIssuer {
        TokenIssuer {
            url: URL.to_owned(),
            audiences: vec!["api".to_owned(), "other".to_owned()],
            keys: vec![self.key(KEY_ID)],
            keys_valid_until: None,
            users: TokenUsers::ServiceAccounts,
            required_claims: [].into(),
            max_age_seconds: 3_600,
        }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_text(r#"{"alg":"ES256","kid":"k1"}"#, &claims.to_string())
    }

    pub(super) fn sign_text(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encode(signature))
    }
}

/// The issuer of users by their claims.
pub(super) fn mapping(issuer: TokenIssuer, username: &str, prefix: &str) -> TokenIssuer {
    let claim = |claim: &str| PrefixedClaim { claim: claim.to_owned(), prefix: prefix.to_owned() };
    TokenIssuer {
        users: TokenUsers::ClaimMappings { username: claim(username), groups: Some(claim("groups")) },
        ..issuer
    }
}

/// The claims of a pod's token, issued at a time.
pub(crate) fn pod_claims(issued: u64) -> Value {
    json!({
        "iss": URL, "aud": ["api"], "exp": issued + 600, "iat": issued, "nbf": issued, "jti": "4a5b",
        "sub": "system:serviceaccount:shop:robot",
        "kubernetes.io": {
            "namespace": "shop",
            "serviceaccount": {"name": "robot", "uid": "u-1"},
            "pod": {"name": "robot-7", "uid": "u-2"},
            "node": {"name": "n1", "uid": "u-3"},
            "warnafter": issued + 300,
        },
    })
}

/// Claims with other values at some places; null takes one away.
pub(super) fn with(mut claims: Value, changes: &[(&str, Value)]) -> Value {
    for (path, value) in changes {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = claims.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => parent.remove(name),
            value => parent.insert(name.to_owned(), value.clone()),
        };
    }
    claims
}

pub(super) const NOW: u64 = 1_900_000_000;

pub(super) fn verified(issuer: TokenIssuer, token: &str, now: u64) -> Result<VerifiedToken, NotVerified> {
    TokenIssuers::compile(&[issuer]).unwrap().unwrap().verify(token.as_bytes(), now)
}

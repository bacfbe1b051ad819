//! A token that the keys of its issuer may verify. Plain bytes never are one; header and claims that the issuer has signed are one
//! only with its audience, in its time and for a user whom the issuer may name.
#![no_main]

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use portcullis_core::local_token::{TokenIssuers, VerifiedToken};
use portcullis_fuzz::NOW;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

const ACCOUNTS: &str = "https://accounts.example.com";
const LOGIN: &str = "https://login.example.com";
const MAX_AGE: u64 = 3_600;

struct Site {
    issuers: TokenIssuers,
    key: EcdsaKeyPair,
}

/// One key for two issuers: of service accounts, and of users by their claims.
static SITE: LazyLock<Site> = LazyLock::new(|| {
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("randomness");
    let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key");
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let keys = json!([{"id": "k", "key": {"P-256": {"x": encode(x), "y": encode(y)}}}]);
    let claim = |claim: &str| json!({"claim": claim, "prefix": "login:"});
    let issuers = json!([
        {"url": ACCOUNTS, "audiences": ["us"], "keys": keys, "users": "serviceAccounts", "maxAgeSeconds": MAX_AGE},
        {"url": LOGIN, "audiences": ["us", "them"], "keys": keys, "maxAgeSeconds": MAX_AGE, "requiredClaims": {"hd": "x"},
         "users": {"claimMappings": {"username": claim("email"), "groups": claim("groups")}}},
    ]);
    let issuers: Vec<_> = serde_json::from_value(issuers).expect("issuers");
    Site { issuers: TokenIssuers::compile(&issuers).expect("issuers").expect("some"), key }
});

fn check(verified: &VerifiedToken, header: &[u8], claims: &[u8]) {
    let header: Value = serde_json::from_slice(header).expect("a header that verifies is JSON");
    assert_eq!((&header["alg"], &header["kid"]), (&json!("ES256"), &json!("k")));
    let claims: Value = serde_json::from_slice(claims).expect("claims that verify are JSON");
    let time = |name: &str| claims[name].as_u64().expect("a time");
    assert!(NOW < time("exp") && verified.until <= time("exp"));
    assert!(NOW < verified.until && verified.until <= time("iat") + MAX_AGE && time("iat") <= NOW + 60);
    assert!(claims.get("nbf").is_none() || time("nbf") <= NOW + 60);
    let audiences = match &claims["aud"] {
        Value::Array(audiences) => audiences.iter().filter_map(Value::as_str).collect(),
        one => Vec::from_iter(one.as_str()),
    };
    let user = &verified.user;
    match claims["iss"].as_str() {
        Some(ACCOUNTS) => {
            assert!(audiences.contains(&"us"));
            let kubernetes = &claims["kubernetes.io"];
            let part = |pointer: &str| kubernetes.pointer(pointer).and_then(Value::as_str).expect("a part");
            let (namespace, name) = (part("/namespace"), part("/serviceaccount/name"));
            assert_eq!(user.name, format!("system:serviceaccount:{namespace}:{name}"));
            assert_eq!((claims["sub"].as_str(), user.uid.as_str()), (Some(&*user.name), part("/serviceaccount/uid")));
            let groups = [
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ];
            assert_eq!(user.groups, groups);
            assert!(kubernetes.get("secret").is_none(), "its Secret may be gone");
        }
        Some(LOGIN) => {
            assert!(audiences.contains(&"us") || audiences.contains(&"them"));
            assert_eq!(claims["hd"], "x");
            assert_eq!(user.name, format!("login:{}", claims["email"].as_str().expect("a name")));
            assert!(matches!(claims.get("email_verified"), None | Some(Value::Bool(true))));
            assert!(user.groups.iter().all(|group| group == "system:authenticated" || group.starts_with("login:")));
        }
        other => panic!("an issuer of no keys here: {other:?}"),
    }
}

fuzz_target!(|data: &[u8]| {
    let Site { issuers, key } = &*SITE;
    assert!(issuers.verify(data, NOW).is_err(), "it is signed by no key");
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (header, claims) = (&data[..end], &data[end + 1..]);
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    let Ok(verified) = issuers.verify(token.as_bytes(), NOW) else { return };
    check(&verified, header, claims);
    assert_eq!(issuers.verify(token.as_bytes(), NOW).as_ref(), Ok(&verified));
    assert!(issuers.verify(token.as_bytes(), verified.until).is_err(), "it is verified past its end");
    let mut other = signature.as_ref().to_vec();
    other[data.len() % 64] ^= 1;
    assert!(issuers.verify(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(other)).as_bytes(), NOW).is_err());
    assert!(issuers.verify(format!("{token}=").as_bytes(), NOW).is_err(), "a token has one spelling");
});

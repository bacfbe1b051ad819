//! Why a token is verified by the keys of its issuer, or reviewed.

use portcullis_api::status::Timestamp;
use portcullis_core::local_token::{NotVerified, TokenIssuers};
use portcullis_filter_config::{ClusterConfig, TokenIssuer};
use serde::Serialize;

/// The outcome of a token where the cluster has issuers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LocalTokenAnswer {
    pub(crate) outcome: &'static str,
    /// The issuer of the cluster that the token names; nothing of a token that is not verified is known to be true.
    pub(crate) issuer: Option<String>,
    /// Why it is not verified.
    pub(crate) reason: Option<String>,
    /// Up to when it is verified: its end, its greatest age, or the end of its issuer's keys.
    pub(crate) until: Option<Timestamp>,
}

/// Reads a token as the filter does, at a time in seconds since 1970. `None` if the cluster has no issuers.
pub(super) fn read_local_token(cluster: &ClusterConfig, token: &[u8], now: u64) -> Option<LocalTokenAnswer> {
    // Without reviews the servers judge the token, and its user is unknown here.
    let otherwise = if cluster.reviews.is_some() { "reviewed" } else { "passed" };
    read_by_issuers(&cluster.token_issuers, token, now, otherwise)
}

fn read_by_issuers(
    config: &[TokenIssuer],
    token: &[u8],
    now: u64,
    otherwise: &'static str,
) -> Option<LocalTokenAnswer> {
    let issuers = TokenIssuers::compile(config).ok()??;
    let (issuer, missing) = issuers.named(token).unzip();
    let missing = missing.flatten();
    let verified = issuers.verify(token, now);
    let reason = verified.as_ref().err().map(|error| match (error, missing, issuer) {
        (NotVerified::RequiredClaim, Some(claim), _) => {
            format!("the required claim {claim} is missing, or has another value")
        }
        (NotVerified::Key, _, Some(_)) if has_no_keys(config, issuer) => "no key of its issuer is known".to_owned(),
        (error, ..) => error.to_string(),
    });
    Some(LocalTokenAnswer {
        outcome: if verified.is_ok() { "verified" } else { otherwise },
        issuer: issuer.map(str::to_owned),
        reason,
        until: verified.ok().map(|verified| Timestamp::from_seconds(verified.until)),
    })
}

fn has_no_keys(config: &[TokenIssuer], issuer: Option<&str>) -> bool {
    let named = config.iter().find(|one| Some(one.url.as_str()) == issuer);
    named.is_some_and(|named| named.keys.is_empty())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_900_000_000;
    const ISSUER: &str = "https://login.example.com";

    struct Site {
        pair: EcdsaKeyPair,
        issuers: Vec<TokenIssuer>,
    }

    fn encode(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    impl Site {
        fn new() -> Self {
            let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
            let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
            let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
            let issuers = json!([{
                "url": ISSUER, "audiences": ["us"], "maxAgeSeconds": 3600, "requiredClaims": {"hd": "example.com"},
                "keys": [{"id": "k", "key": {"P-256": {"x": encode(x), "y": encode(y)}}}],
                "users": {"claimMappings": {"username": {"claim": "sub", "prefix": "login:"}}},
            }]);
            Site { pair, issuers: serde_json::from_value(issuers).unwrap() }
        }

        /// The answer about a token with a changed claim.
        fn answer(&self, claim: &str, value: Value) -> LocalTokenAnswer {
            let mut claims =
                json!({"iss": ISSUER, "aud": "us", "sub": "a", "hd": "example.com", "iat": NOW, "exp": NOW + 60});
            claims[claim] = value;
            let signed = format!("{}.{}", encode(r#"{"alg":"ES256","kid":"k"}"#), encode(claims.to_string()));
            let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
            let token = format!("{signed}.{}", encode(signature));
            read_by_issuers(&self.issuers, token.as_bytes(), NOW + 1, "reviewed").unwrap()
        }
    }

    #[test]
    fn token_is_explained_with_its_issuer_and_failed_claim() {
        let mut site = Site::new();
        let good = site.answer("hd", json!("example.com"));
        assert_eq!((good.outcome, good.issuer.as_deref(), good.reason), ("verified", Some(ISSUER), None));
        assert_eq!(good.until, Some(Timestamp::from_seconds(NOW + 60)));
        let table = [
            ("hd", json!("other"), "the required claim hd is missing, or has another value"),
            ("aud", json!("them"), "a claim (aud) is missing, or is not what it has to be"),
            ("exp", json!(NOW), "it is not valid at this time"),
            ("iat", json!(NOW - 3600), "it is older than maxAge"),
            ("iss", json!("https://other.example.com"), "no issuer of this cluster has a key of its key id"),
        ];
        for (claim, value, reason) in table {
            let answer = site.answer(claim, value);
            assert_eq!((answer.outcome, answer.reason.as_deref(), answer.until), ("reviewed", Some(reason), None));
            assert_eq!(answer.issuer.is_none(), claim == "iss", "{claim}");
        }
        site.issuers[0].keys.clear();
        assert_eq!(site.answer("hd", json!("example.com")).reason.as_deref(), Some("no key of its issuer is known"));
        assert!(read_by_issuers(&[], b"a.b.c", NOW, "reviewed").is_none());
    }

    #[test]
    fn token_is_passed_where_the_cluster_has_no_reviews() {
        let config = json!({"version": 2, "name": "a", "authorities": ["a"], "policies": [],
            "upstreamIdentity": {"RequestHeader": {}}});
        let mut cluster: ClusterConfig = serde_json::from_value(config.clone()).unwrap();
        cluster.token_issuers = Site::new().issuers;
        let outcome = |cluster: &ClusterConfig| read_local_token(cluster, b"a.b.c", NOW).unwrap().outcome;
        assert_eq!(outcome(&cluster), "passed");
        let mut reviewed = config;
        reviewed["reviews"] = json!({"cluster": "c"});
        let reviewed: ClusterConfig = serde_json::from_value(reviewed).unwrap();
        assert_eq!(outcome(&ClusterConfig { token_issuers: cluster.token_issuers.clone(), ..reviewed }), "reviewed");
    }
}

//! Tokens that are verified: those of pods, each new, signed by an issuer whose key the cluster has.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use portcullis_harness::issuer::TokenSigner;
use serde_json::{Value, json};

use crate::error::BenchError;

/// A group of the tokens' account.
pub(crate) const GROUP: &str = "system:serviceaccounts:shop";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The issuer's key, which each run makes anew.
fn signer() -> Result<&'static TokenSigner, BenchError> {
    static SIGNER: OnceLock<TokenSigner> = OnceLock::new();
    let Some(signer) = SIGNER.get() else {
        let new = TokenSigner::new("k1")?;
        return Ok(SIGNER.get_or_init(|| new));
    };
    Ok(signer)
}

/// The issuer in the manifest.
pub(crate) fn issuer() -> Result<Value, BenchError> {
    let keys = json!({"keys": [signer()?.jwk()]}).to_string();
    Ok(json!({"url": ISSUER, "audiences": [ISSUER], "serviceAccounts": true, "jwks": {"inline": keys}}))
}

/// A token that no request had before.
pub(crate) fn token() -> Result<String, BenchError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let claims = json!({
        "aud": [ISSUER], "exp": now + 3_607, "iat": now, "iss": ISSUER, "jti": format!("5f0c1d2e-3a4b-4c5d-8e6f-{number:012}"),
        "kubernetes.io": {
            "namespace": "shop", "node": {"name": "node-17", "uid": "1f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"},
            "pod": {"name": format!("robot-7d9c6b5f4-{number:05}"), "uid": format!("2f0c1d2e-3a4b-4c5d-8e6f-{number:012}")},
            "serviceaccount": {"name": "robot", "uid": "3f0c1d2e-3a4b-4c5d-8e6f-708192a3b4c5"}, "warnafter": now + 3_000,
        },
        "nbf": now, "sub": "system:serviceaccount:shop:robot",
    });
    Ok(signer()?.sign(&claims)?)
}

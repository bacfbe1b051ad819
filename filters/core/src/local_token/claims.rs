use std::collections::BTreeMap;

use super::NotVerified;
use super::json::Json;
use super::token::decode;

/// Seconds by which an issuer's clock may be ahead, as kube-apiserver allows (go-jose, `jwt/validation.go`, and go-oidc). It allows
/// as much after a token's end for service accounts; here a token ends in time, and the servers may be asked about it.
const LEEWAY: u64 = 60;

/// TokenClaims that kube-apiserver's packages know. Some of them find a claim whatever the case of its letters.
const KNOWN: [&str; 11] =
    ["iss", "sub", "aud", "exp", "iat", "nbf", "jti", "nonce", "at_hash", "_claim_names", "_claim_sources"];
/// Of these, the ones that are read as texts, and make a token unreadable if they are something else.
const TEXTS: [&str; 5] = ["iss", "sub", "jti", "nonce", "at_hash"];

/// The claims of a token.
#[derive(Debug)]
pub(super) struct TokenClaims(BTreeMap<String, Json>);

impl TokenClaims {
    pub(super) fn read(payload: &[u8]) -> Result<Self, NotVerified> {
        let claims = decode(payload).and_then(|text| Json::read_object(&text)).ok_or(NotVerified::Form)?;
        let is_look_alike = |name: &str| {
            !name.is_ascii() || KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name) && *known != name)
        };
        // TokenClaims that are kept elsewhere have to be fetched.
        let is_distributed = |name: &str| matches!(name, "_claim_names" | "_claim_sources");
        if claims.keys().any(|name| is_look_alike(name) || is_distributed(name)) {
            return Err(NotVerified::Form);
        }
        for name in TEXTS {
            if claims.get(name).is_some_and(|value| value.text().is_none()) {
                return Err(NotVerified::Claim(name));
            }
        }
        Ok(TokenClaims(claims))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name)
    }

    /// A claim that is a text and not empty.
    pub(super) fn text(&self, name: &str) -> Result<&str, NotVerified> {
        let text = self.get(name).and_then(Json::text).filter(|text| !text.is_empty());
        text.ok_or(NotVerified::Claim("of that name"))
    }

    fn time(&self, name: &'static str) -> Result<Option<u64>, NotVerified> {
        self.get(name).map(|value| value.time().ok_or(NotVerified::Claim(name))).transpose()
    }

    /// The time up to which a token is valid here, if it is valid now, and its own expiry.
    pub(super) fn valid_until(&self, now: u64, max_age: u64) -> Result<(u64, u64), NotVerified> {
        let expires = self.time("exp")?.ok_or(NotVerified::Claim("exp"))?;
        let issued = self.time("iat")?.ok_or(NotVerified::Claim("iat"))?;
        let begins = self.time("nbf")?.unwrap_or(issued).max(issued);
        if now >= expires || now.saturating_add(LEEWAY) < begins {
            return Err(NotVerified::Time);
        }
        let old = issued.saturating_add(max_age);
        if now >= old { Err(NotVerified::Age) } else { Ok((expires.min(old), expires)) }
    }

    /// Whether one of the audiences is meant.
    pub(super) fn check_audience(&self, audiences: &[Box<str>]) -> Result<(), NotVerified> {
        let meant = self.get("aud").and_then(Json::texts).unwrap_or_default();
        let is_ours = meant.iter().any(|audience| audiences.iter().any(|ours| **ours == **audience));
        if is_ours { Ok(()) } else { Err(NotVerified::Claim("aud")) }
    }
}

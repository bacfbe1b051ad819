use std::time::Duration;

use super::Findings;
use crate::duration::parse_duration;
use crate::types::CredentialCacheSpec;

/// A user who loses a right keeps it for up to this long.
const MAX_TTL: Duration = Duration::from_secs(3600);

/// Lifetimes of the servers' answers about credentials, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialCache {
    /// Of a token's user.
    pub token_ttl: Duration,
    /// Of the answer that a token is invalid.
    pub rejected_token_ttl: Duration,
    /// Of the answer that a user may impersonate.
    pub authorized_ttl: Duration,
    /// Of the answer that a user may not impersonate.
    pub unauthorized_ttl: Duration,
}

pub(super) fn check_credential_cache(raw: &CredentialCacheSpec, findings: &mut Findings) -> CredentialCache {
    let mut ttl = |field: &str, raw: &Option<String>, default: u64| {
        let default = Duration::from_secs(default);
        let path = format!("spec.portcullis.credentialCache.{field}");
        match raw.as_deref().map(parse_duration) {
            None => default,
            Some(Ok(ttl)) if ttl <= MAX_TTL => ttl,
            Some(Ok(_)) => {
                findings.problem(path, "must be from 0 to 1h");
                default
            }
            Some(Err(error)) => {
                findings.problem(path, error.to_string());
                default
            }
        }
    };
    CredentialCache {
        token_ttl: ttl("tokenTTL", &raw.token_ttl, 120),
        rejected_token_ttl: ttl("rejectedTokenTTL", &raw.rejected_token_ttl, 10),
        authorized_ttl: ttl("authorizedTTL", &raw.authorized_ttl, 300),
        unauthorized_ttl: ttl("unauthorizedTTL", &raw.unauthorized_ttl, 30),
    }
}

/// The prefix of the gateway's own extra keys.
const RESERVED: &str = "portcullis.dev/";

/// Checks the keys of extra attributes beside the default ones.
pub(super) fn check_extras(raw: &[String], findings: &mut Findings) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(raw.len());
    for (index, key) in raw.iter().enumerate() {
        let path = format!("spec.portcullis.forwardedExtras[{index}]");
        if key.is_empty() || key.chars().any(char::is_uppercase) {
            findings.problem(path, "must be a lower-case key: impersonation headers cannot carry others");
        } else if key.starts_with(RESERVED) {
            findings.problem(path, "must not start with portcullis.dev/: such keys are the gateway's own");
        } else {
            keys.push(key.clone());
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

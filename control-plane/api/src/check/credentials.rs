use std::time::Duration;

use super::Findings;
use crate::CredentialCacheSpec;
use crate::parse_duration;

/// The longest that an answer may be believed: somebody who lost a right keeps it for that long.
const LONGEST: Duration = Duration::from_secs(3600);

/// For how long answers of the servers about credentials are believed, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialCache {
    /// Whose a token is.
    pub token: Duration,
    /// That a token is nobody's.
    pub rejected_token: Duration,
    /// That a user may impersonate.
    pub allowed_impersonation: Duration,
    /// That a user may not impersonate.
    pub denied_impersonation: Duration,
}

pub(super) fn check_credential_cache(raw: &CredentialCacheSpec, findings: &mut Findings) -> CredentialCache {
    let mut lifetime = |field: &str, raw: &Option<String>, default: u64| {
        let default = Duration::from_secs(default);
        let path = format!("spec.portcullis.credentialCache.{field}");
        match raw.as_deref().map(parse_duration) {
            None => default,
            Some(Ok(lifetime)) if lifetime <= LONGEST => lifetime,
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
        token: lifetime("token", &raw.token, 120),
        rejected_token: lifetime("rejectedToken", &raw.rejected_token, 10),
        allowed_impersonation: lifetime("allowedImpersonation", &raw.allowed_impersonation, 300),
        denied_impersonation: lifetime("deniedImpersonation", &raw.denied_impersonation, 30),
    }
}

/// What the gateway's own extra keys start with.
const RESERVED: &str = "portcullis.dev/";

/// Checks the keys of extra attributes beside the default ones.
pub(super) fn check_extras(raw: &[String], findings: &mut Findings) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(raw.len());
    for (index, key) in raw.iter().enumerate() {
        let path = format!("spec.portcullis.forwardedExtras[{index}]");
        if key.is_empty() || key.chars().any(char::is_uppercase) {
            findings.problem(path, "must be a key in lower case: impersonation carries no other");
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

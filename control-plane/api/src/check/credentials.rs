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

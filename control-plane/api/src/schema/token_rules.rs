use serde_json::{Value, json};

use super::rules::{DURATION, cel};
use crate::bounds::{
    MAX_AUDIENCES, MAX_CLAIM, MAX_CLAIM_RULES, MAX_ISSUER_CAS, MAX_JWKS, MAX_KEYS_URL, MAX_TOKEN_ISSUERS,
};

/// Keeps unknown fields for the check, which refuses them: kube-apiserver's own configuration has rules that are none here, and an issuer
/// without a rule that was written would be believed more than it may. Fields below are kept only where they have the keyword, too.
const KEPT: &str = "x-kubernetes-preserve-unknown-fields";

/// Rules of the issuers of tokens.
pub(super) fn token_rules() -> Vec<(&'static str, Value)> {
    let users = cel(
        "(has(self.serviceAccounts) && self.serviceAccounts) != has(self.claimMappings)",
        "exactly one of serviceAccounts and claimMappings is required",
        "",
    );
    let servers = cel(
        "!has(self.jwks.fromServers) || !self.jwks.fromServers || (has(self.serviceAccounts) && self.serviceAccounts)",
        "is for serviceAccounts only: servers have keys of no other issuer",
        ".jwks.fromServers",
    );
    let sources = "(has(self.fromServers) && self.fromServers ? 1 : 0) + (has(self.url) && size(self.url) > 0 ? 1 : 0) + \
                   (has(self.fromIssuer) && self.fromIssuer ? 1 : 0)";
    let keys = cel(
        &format!("(has(self.inline) && size(self.inline) > 0) || {sources} > 0"),
        "is required without fromServers, url or fromIssuer",
        ".inline",
    );
    let one = cel(&format!("{sources} <= 1"), "at most one of fromServers, url and fromIssuer may be set", "");
    let authority = cel(
        "!has(self.certificateAuthority) || size(self.certificateAuthority) == 0 || (has(self.url) && size(self.url) > 0) || \
         (has(self.fromIssuer) && self.fromIssuer)",
        "is for url and fromIssuer",
        ".certificateAuthority",
    );
    let age =
        cel("duration(self) >= duration('1m') && duration(self) <= duration('24h')", "must be from 1m to 24h", "");
    let period =
        cel("duration(self) >= duration('10s') && duration(self) <= duration('10m')", "must be from 10s to 10m", "");
    let claim = || json!({"required": ["claim", "prefix"], KEPT: true});
    let claim_name = || json!({"minLength": 1, "maxLength": MAX_CLAIM});
    vec![
        ("portcullis.tokens.audiences", json!({"maxItems": MAX_AUDIENCES})),
        ("portcullis.tokens.checkRevocation", json!({"pattern": DURATION, "x-kubernetes-validations": [period]})),
        ("portcullis.tokens.audiences[]", json!({"minLength": 1})),
        (
            "portcullis.tokens.issuers",
            json!({"maxItems": MAX_TOKEN_ISSUERS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["url"]}),
        ),
        (
            "portcullis.tokens.issuers[]",
            json!({"required": ["url", "audiences", "jwks"], KEPT: true, "x-kubernetes-validations": [users, servers]}),
        ),
        ("portcullis.tokens.issuers[].url", json!({"minLength": 1})),
        ("portcullis.tokens.issuers[].audiences", json!({"minItems": 1, "maxItems": MAX_AUDIENCES})),
        ("portcullis.tokens.issuers[].audiences[]", json!({"minLength": 1})),
        ("portcullis.tokens.issuers[].jwks", json!({"x-kubernetes-validations": [keys, one, authority]})),
        ("portcullis.tokens.issuers[].jwks.url", json!({"maxLength": MAX_KEYS_URL, "pattern": "^$|^https://"})),
        ("portcullis.tokens.issuers[].jwks.certificateAuthority", json!({"maxLength": MAX_ISSUER_CAS})),
        ("portcullis.tokens.issuers[].jwks.inline", json!({"maxLength": MAX_JWKS})),
        ("portcullis.tokens.issuers[].claimMappings", json!({"required": ["username"], KEPT: true})),
        ("portcullis.tokens.issuers[].claimMappings.username", claim()),
        ("portcullis.tokens.issuers[].claimMappings.username.claim", claim_name()),
        ("portcullis.tokens.issuers[].claimMappings.groups", claim()),
        ("portcullis.tokens.issuers[].claimMappings.groups.claim", claim_name()),
        (
            "portcullis.tokens.issuers[].claimValidationRules",
            json!({"maxItems": MAX_CLAIM_RULES, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["claim"]}),
        ),
        (
            "portcullis.tokens.issuers[].claimValidationRules[]",
            json!({"required": ["claim", "requiredValue"], KEPT: true}),
        ),
        ("portcullis.tokens.issuers[].claimValidationRules[].claim", json!({"minLength": 1})),
        ("portcullis.tokens.issuers[].claimValidationRules[].requiredValue", json!({"minLength": 1})),
        ("portcullis.tokens.issuers[].maxAge", json!({"pattern": DURATION, "x-kubernetes-validations": [age]})),
    ]
}

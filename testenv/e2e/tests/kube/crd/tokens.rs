//! Issuers of tokens.

use serde_json::{Value, json};

use super::cases::{Row, Verdict};

pub(super) fn rows() -> Vec<Row> {
    use Verdict::{Accepted, ByCheckAlone, Refused};
    let field = "/spec/portcullis/tokens";
    let of = |issuer: Value, jwks: Value| {
        let mut one = json!({"url": "https://issuer.test", "audiences": ["us"], "jwks": jwks});
        one.as_object_mut()
            .into_iter()
            .for_each(|fields| fields.extend(issuer.as_object().cloned().unwrap_or_default()));
        json!({"issuers": [one]})
    };
    let users = || json!({"claimMappings": {"username": {"claim": "sub", "prefix": ""}}});
    let accounts = || json!({"serviceAccounts": true});
    let at = |what: &'static str| Refused(what);
    let cel = json!({"claimMappings": {"username": {"claim": "sub", "prefix": "", "expression": "claims.sub"}}});
    let http = json!({"url": "http://issuer.test", "claimMappings": {"username": {"claim": "sub", "prefix": ""}}});
    vec![
        (field, of(users(), json!({"url": "https://keys.test/k?a=b"})), Accepted),
        (field, of(users(), json!({"fromIssuer": true})), Accepted),
        (field, of(users(), json!({"inline": "{\"keys\":[]}", "url": "", "fromIssuer": false})), Accepted),
        (field, of(accounts(), json!({"fromServers": true})), Accepted),
        (field, of(accounts(), json!({"fromIssuer": true})), Accepted),
        (field, of(users(), json!({})), at("jwks.inline")),
        (field, of(users(), json!({"fromServers": true})), at("jwks.fromServers")),
        (field, of(users(), json!({"url": "https://a.test", "fromIssuer": true})), at("at most one of")),
        (field, of(accounts(), json!({"fromServers": true, "url": "https://a.test"})), at("at most one of")),
        (field, of(users(), json!({"url": "http://a.test"})), at("jwks.url")),
        (
            field,
            of(users(), json!({"inline": "{\"keys\":[]}", "certificateAuthority": "x"})),
            at("certificateAuthority"),
        ),
        (field, of(users(), json!({"url": "https://a.test", "certificateAuthority": "x"})), ByCheckAlone),
        (field, of(users(), json!({"url": "https://127.0.0.1/k#f"})), ByCheckAlone),
        (field, of(http, json!({"fromIssuer": true})), ByCheckAlone),
        (field, of(cel, json!({"fromIssuer": true})), at("claimMappings.username.expression")),
        (
            field,
            of(
                json!({"serviceAccounts": true, "claimMappings": {"username": {"claim": "a", "prefix": ""}}}),
                json!({"fromIssuer": true}),
            ),
            at("exactly one of"),
        ),
    ]
}

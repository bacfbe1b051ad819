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
        // Kept for the check: pruned without Strict, it would be missed by none.
        (field, of(cel, json!({"fromIssuer": true})), ByCheckAlone),
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

/// Issuers with a field that kube-apiserver's own configuration has and an object has not, and the field.
pub(super) fn unknown_fields() -> Vec<(Value, &'static str)> {
    let rule = json!({"expression": "!user.username.startsWith('system:')"});
    [
        ("/userValidationRules", json!([rule]), "userValidationRules"),
        ("/claimMappings/uid", json!({"claim": "sub"}), "uid"),
        ("/claimMappings/extra", json!([{"key": "a.test/b", "valueExpression": "claims.b"}]), "extra"),
        ("/claimMappings/username/expression", json!("claims.sub"), "expression"),
        ("/claimMappings/groups/expression", json!("claims.groups"), "expression"),
        ("/claimValidationRules/0/expression", json!("claims.hd == 'a'"), "expression"),
    ]
    .into_iter()
    .map(|(pointer, value, field)| {
        let claim = |name: &str| json!({"claim": name, "prefix": "a:"});
        let mut issuer = json!({
            "url": "https://issuer.test", "audiences": ["us"], "jwks": {"fromIssuer": true},
            "claimMappings": {"username": claim("sub"), "groups": claim("groups")},
            "claimValidationRules": [{"claim": "hd", "requiredValue": "a"}],
        });
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        issuer.pointer_mut(parent).unwrap()[name] = value;
        (json!({"issuers": [issuer]}), field)
    })
    .collect()
}

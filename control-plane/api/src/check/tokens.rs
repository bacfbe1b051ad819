use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use portcullis_filter_config::{PrefixedClaim, TokenIssuer, TokenKey, TokenUsers};

use super::Findings;
use super::jwks::read_keys;
use crate::bounds::{MAX_AUDIENCES, MAX_CLAIM, MAX_CLAIM_RULES, MAX_TOKEN_ISSUERS};
use crate::duration::parse_duration;
use crate::problem::{Problem, ProblemCode};
use crate::server_keys::{ServerKeys, server_keys_of};
use crate::types;

/// The path at which a kube-apiserver shows the public keys of its service accounts' tokens.
pub const TOKEN_KEYS_PATH: &str = "/openid/v1/jwks";

const PATH: &str = "spec.portcullis.tokens.issuers";

/// The default of `maxAge`: as long as a pod's token is valid that says nothing else.
const MAX_AGE: Duration = Duration::from_secs(3600);
const MAX_AGES: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(24 * 3600);

/// Consequences of the verification of tokens, for the object's status.
const UNNOTICED: &str = "tokens of these issuers are not reviewed: a deleted service account or pod, and a session that was revoked, \
                         stay valid here until the token ends, at most until maxAge after it was issued";
const BY_HTTP1: &str = "tokens of these issuers are not reviewed: they go to the servers by HTTP/1.1, so that each watch holds a \
                        connection, and policies, limits and metrics know the user by the token alone, also after a server has \
                        rejected it";

/// Checks the issuers of tokens, and gives them as the filter reads them.
pub(super) fn check_tokens(raw: &types::UpstreamCluster, findings: &mut Findings) -> Vec<TokenIssuer> {
    let spec = &raw.spec.portcullis.tokens;
    if spec.issuers.len() > MAX_TOKEN_ISSUERS {
        findings.problem(PATH, format!("must not have more than {MAX_TOKEN_ISSUERS} entries"));
        return Vec::new();
    }
    let found = server_keys_of(raw);
    let mut urls = BTreeSet::new();
    let mut checked = Vec::new();
    for (index, issuer) in spec.issuers.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        if issuer.url.is_empty() {
            findings.problem(format!("{path}.url"), "is required");
        } else if !urls.insert(&issuer.url) {
            findings.problem(format!("{path}.url"), "is listed twice");
        }
        checked.extend(check_issuer(issuer, &found, &path, findings));
        if issuer.jwks.from_servers {
            check_asked_servers(raw, format!("{path}.jwks.fromServers"), findings);
        }
    }
    if !spec.issuers.is_empty() {
        let is_impersonating = matches!(raw.spec.portcullis.upstream_identity.as_str(), "" | "Impersonate");
        let message = if is_impersonating { UNNOTICED } else { BY_HTTP1 };
        findings.warn(Problem::coded(ProblemCode::Caution, PATH, message));
    }
    let asks = spec.issuers.iter().any(|issuer| issuer.jwks.from_servers);
    if let Some(why) = found.error.filter(|_| asks) {
        let message = format!("fromServers: {why}; the last keys hold for a day at most, then every token is reviewed");
        findings.warn(Problem::coded(ProblemCode::Caution, PATH, message));
    }
    checked
}

/// Keys are asked for at written servers, before the discovered ones are known, and they are believed for a day.
fn check_asked_servers(raw: &types::UpstreamCluster, path: String, findings: &mut Findings) {
    if raw.spec.client_config.insecure {
        findings.problem(path, "needs servers that are verified: remove spec.clientConfig.insecure, and set caData");
    } else if raw.spec.servers.is_empty() {
        let message = "asks written servers only, and there is none: every token of this issuer is reviewed. Write one in \
                       spec.servers, with disabled: true if it is to have no requests";
        findings.warn(Problem::coded(ProblemCode::NoEffect, path, message));
    }
}

fn check_issuer(
    raw: &types::TokenIssuer,
    found: &ServerKeys,
    path: &str,
    findings: &mut Findings,
) -> Option<TokenIssuer> {
    if raw.audiences.is_empty() || raw.audiences.iter().any(String::is_empty) {
        findings.problem(format!("{path}.audiences"), "needs at least one, and none that is empty");
    } else if raw.audiences.len() > MAX_AUDIENCES {
        findings.problem(format!("{path}.audiences"), format!("must not have more than {MAX_AUDIENCES} entries"));
    }
    let (keys, keys_valid_until) = check_keys(raw, found, path, findings);
    let users = check_users(raw, path, findings);
    let required_claims = check_rules(&raw.claim_validation_rules, path, findings);
    let max_age = check_max_age(raw.max_age.as_deref(), path, findings);
    Some(TokenIssuer {
        url: raw.url.clone(),
        audiences: raw.audiences.clone(),
        keys,
        keys_valid_until,
        users: users?,
        required_claims,
        max_age_seconds: max_age.as_secs(),
    })
}

/// The keys, and the time up to which they hold if they are the servers'.
fn check_keys(
    raw: &types::TokenIssuer,
    found: &ServerKeys,
    path: &str,
    findings: &mut Findings,
) -> (Vec<TokenKey>, Option<u64>) {
    if raw.jwks.from_servers && !raw.service_accounts {
        findings.problem(
            format!("{path}.jwks.fromServers"),
            "is for serviceAccounts only: servers have keys of no other issuer",
        );
    }
    let path = format!("{path}.jwks.inline");
    // Whatever the servers have shown: a mistake is not to come to light when they do not answer.
    let written = match raw.jwks.inline.as_str() {
        "" => None,
        text => match read_keys(text) {
            Ok(keys) => Some(keys),
            Err(error) => {
                findings.problem(path, error.to_string());
                return (Vec::new(), None);
            }
        },
    };
    let shown = found.keys.as_ref().filter(|_| raw.jwks.from_servers);
    if let Some((keys, until)) = shown.and_then(|(text, until)| Some((read_keys(text).ok()?, *until))) {
        return (keys, Some(until));
    }
    let Some(keys) = written else {
        if raw.jwks.from_servers {
            let message =
                "no key is known yet: every token of this issuer is reviewed until the servers have shown their keys";
            findings.warn(Problem::coded(ProblemCode::Caution, path, message));
        } else {
            findings.problem(path, "is required without fromServers");
        }
        return (Vec::new(), None);
    };
    if keys.is_empty() {
        let message = "has no key that can be used: every token of this issuer is reviewed";
        findings.warn(Problem::coded(ProblemCode::NoEffect, path, message));
    }
    (keys, None)
}

fn check_users(raw: &types::TokenIssuer, path: &str, findings: &mut Findings) -> Option<TokenUsers> {
    match (raw.service_accounts, &raw.claim_mappings) {
        (true, None) => Some(TokenUsers::ServiceAccounts),
        (false, Some(mappings)) => {
            let path = format!("{path}.claimMappings");
            Some(TokenUsers::ClaimMappings {
                username: check_claim(&mappings.username, &format!("{path}.username"), findings)?,
                groups: match &mappings.groups {
                    Some(groups) => Some(check_claim(groups, &format!("{path}.groups"), findings)?),
                    None => None,
                },
            })
        }
        _ => {
            findings.problem(path, "exactly one of serviceAccounts and claimMappings is required");
            None
        }
    }
}

fn check_claim(raw: &types::PrefixedClaim, path: &str, findings: &mut Findings) -> Option<PrefixedClaim> {
    if raw.claim.is_empty() || raw.claim.len() > MAX_CLAIM {
        findings.problem(format!("{path}.claim"), format!("must have 1 to {MAX_CLAIM} bytes"));
    }
    let Some(prefix) = &raw.prefix else {
        findings.problem(format!("{path}.prefix"), "is required; it may be empty, as in the servers' configuration");
        return None;
    };
    if prefix.starts_with("system:") {
        let message =
            "begins with system: no user or group of this issuer is believed here, and every token is reviewed";
        findings.warn(Problem::coded(ProblemCode::NoEffect, format!("{path}.prefix"), message));
    }
    Some(PrefixedClaim { claim: raw.claim.clone(), prefix: prefix.clone() })
}

fn check_rules(rules: &[types::ClaimValidationRule], path: &str, findings: &mut Findings) -> BTreeMap<String, String> {
    if rules.len() > MAX_CLAIM_RULES {
        let message = format!("must not have more than {MAX_CLAIM_RULES} entries");
        findings.problem(format!("{path}.claimValidationRules"), message);
    }
    let mut required = BTreeMap::new();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}.claimValidationRules[{index}]");
        if rule.claim.is_empty() || rule.required_value.is_empty() {
            findings.problem(path, "needs claim and requiredValue");
        } else if required.insert(rule.claim.clone(), rule.required_value.clone()).is_some() {
            findings.problem(format!("{path}.claim"), "is listed twice");
        }
    }
    required
}

fn check_max_age(raw: Option<&str>, path: &str, findings: &mut Findings) -> Duration {
    let problem = match raw.map(parse_duration) {
        None => return MAX_AGE,
        Some(Ok(age)) if MAX_AGES.contains(&age) => return age,
        Some(Ok(_)) => "must be from 1m to 24h".to_owned(),
        Some(Err(error)) => error.to_string(),
    };
    findings.problem(format!("{path}.maxAge"), problem);
    MAX_AGE
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::server_keys::put_server_keys;

    fn checked(issuer: &Value) -> (Vec<TokenIssuer>, Vec<String>, Vec<String>) {
        let mut findings = Findings::default();
        let raw = json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
            "spec": {"portcullis": {"tokens": {"issuers": [issuer]}}},
        });
        let checked = check_tokens(&serde_json::from_value(raw).unwrap(), &mut findings);
        let texts = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect();
        (checked, texts(&findings.problems), texts(&findings.warnings))
    }

    fn issuer() -> Value {
        let x = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
        let y = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
        let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "a", "x": x, "y": y}]});
        json!({
            "url": "https://issuer.example.com", "audiences": ["us"], "jwks": {"inline": keys.to_string()},
            "claimMappings": {"username": {"claim": "sub", "prefix": "x:"}},
        })
    }

    #[test]
    fn issuer_is_read_with_its_defaults() {
        let (checked, problems, warnings) = checked(&issuer());
        assert_eq!(problems, [""; 0]);
        assert_eq!(warnings, [format!("{PATH}: {UNNOTICED}")]);
        assert_eq!(checked.len(), 1);
        assert_eq!((checked[0].keys.len(), checked[0].max_age_seconds), (1, 3600));
    }

    fn of_servers(inline: &str, shown: &ServerKeys) -> (Vec<TokenIssuer>, Vec<String>) {
        let mut issuer = issuer();
        issuer.as_object_mut().unwrap().remove("claimMappings");
        issuer["serviceAccounts"] = json!(true);
        issuer["jwks"] = json!({"fromServers": true, "inline": inline});
        let mut raw = json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
            "spec": {"portcullis": {"tokens": {"issuers": [issuer]}}}, "status": "of the object",
        });
        put_server_keys(&mut raw, shown);
        let mut findings = Findings::default();
        let checked = check_tokens(&serde_json::from_value(raw).unwrap(), &mut findings);
        (checked, findings.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn keys_of_servers_hold_up_to_their_end_and_hide_no_mistake() {
        let own = issuer()["jwks"]["inline"].as_str().unwrap().to_owned();
        let two = own.replace("\"kid\":\"a\"", "\"kid\":\"of-servers\"");
        let shown = ServerKeys { keys: Some((two, 86_400)), error: None };
        for inline in ["", &own] {
            let (checked, problems) = of_servers(inline, &shown);
            assert_eq!(problems, [""; 0]);
            assert_eq!((checked[0].keys[0].id.as_str(), checked[0].keys_valid_until), ("of-servers", Some(86_400)));
        }
        let (checked, problems) = of_servers(&own, &ServerKeys::default());
        assert_eq!((problems, checked[0].keys[0].id.as_str(), checked[0].keys_valid_until), (vec![], "a", None));
        let (_, problems) = of_servers("{", &shown);
        assert!(problems.iter().any(|problem| problem.contains("jwks.inline: is no JSON Web Key Set")), "{problems:?}");
    }

    #[test]
    fn keys_are_asked_for_at_written_servers_that_are_verified() {
        let mut issuer = issuer();
        issuer.as_object_mut().unwrap().remove("claimMappings");
        issuer["serviceAccounts"] = json!(true);
        issuer["jwks"] = json!({"fromServers": true});
        let of = |servers: Value, client: Value| {
            let mut findings = Findings::default();
            let raw = json!({
                "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
                "spec": {"servers": servers, "clientConfig": client, "portcullis": {"tokens": {"issuers": [issuer]}}},
            });
            check_tokens(&serde_json::from_value(raw).unwrap(), &mut findings);
            let of = |problems: &[Problem]| problems.iter().filter(|one| one.path.ends_with("fromServers")).count();
            (of(&findings.problems), of(&findings.warnings))
        };
        let servers = json!([{"endpoint": "https://10.0.0.1", "disabled": true}]);
        assert_eq!(of(servers.clone(), json!({})), (0, 0));
        assert_eq!(of(servers, json!({"insecure": true})), (1, 0), "an answer would be from whatever is on the way");
        assert_eq!(of(json!([]), json!({})), (0, 1), "nothing is asked");
    }

    #[test]
    fn issuer_that_could_be_read_in_two_ways_is_refused() {
        let table = [
            ("/url", json!(""), "url: is required"),
            ("/audiences", json!([]), "audiences: needs at least one"),
            ("/audiences", json!([""]), "audiences: needs at least one"),
            ("/jwks", json!({}), "jwks.inline: is required"),
            ("/jwks", json!({"fromServers": true}), "jwks.fromServers: is for serviceAccounts only"),
            ("/jwks/inline", json!("{"), "jwks.inline: is no JSON Web Key Set"),
            ("/claimMappings", Value::Null, "exactly one of serviceAccounts and claimMappings"),
            ("/claimMappings/username/prefix", Value::Null, "username.prefix: is required"),
            ("/claimMappings/username/claim", json!(""), "username.claim: must have"),
        ];
        for (path, value, expected) in table {
            let mut changed = issuer();
            *changed.pointer_mut(path).unwrap() = value;
            let (_, problems, _) = checked(&changed);
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{path}: {problems:?}");
        }
        let more = [
            (json!({"serviceAccounts": true}), "exactly one of serviceAccounts and claimMappings"),
            (json!({"maxAge": "1s"}), "maxAge: must be from 1m to 24h"),
            (json!({"maxAge": "1 hour"}), "maxAge"),
            (json!({"claimValidationRules": [{"claim": "a"}]}), "needs claim and requiredValue"),
        ];
        for (fields, expected) in more {
            let mut changed = issuer();
            changed.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let (_, problems, _) = checked(&changed);
            assert!(problems.iter().any(|problem| problem.contains(expected)), "{fields}: {problems:?}");
        }
    }

    #[test]
    fn issuer_that_verifies_nothing_is_warned_of() {
        let mut changed = issuer();
        changed["jwks"]["inline"] = json!(r#"{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}"#);
        changed["claimMappings"]["username"]["prefix"] = json!("system:");
        let (_, problems, warnings) = checked(&changed);
        assert_eq!((problems, warnings.len()), (vec![], 3), "{warnings:?}");
    }
}

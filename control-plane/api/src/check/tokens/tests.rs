use serde_json::{Value, json};

use super::*;
use crate::server_keys::put_server_keys;

fn checked(issuer: &Value) -> (Vec<TokenIssuer>, Vec<String>, Vec<String>) {
    let (tokens, problems, warnings) = checked_spec(&json!({"tokens": {"issuers": [issuer]}}));
    (tokens.issuers, problems, warnings)
}

fn checked_spec(portcullis: &Value) -> (Tokens, Vec<String>, Vec<String>) {
    let mut findings = Findings::default();
    let raw = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
        "spec": {"portcullis": portcullis},
    });
    let checked = check_tokens(&serde_json::from_value(raw).unwrap(), &mut findings);
    let texts = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect();
    (checked, texts(&findings.problems), texts(&findings.warnings))
}

#[test]
fn audiences_of_issuers_are_among_those_of_reviews() {
    let asking = |audiences: Value| checked_spec(&json!({"tokens": {"audiences": audiences, "issuers": [issuer()]}}));
    let (tokens, problems, _) = asking(json!(["gateway", "us"]));
    assert_eq!((problems, tokens.audiences), (vec![], vec!["gateway".to_owned(), "us".to_owned()]));
    let (_, problems, _) = asking(json!(["gateway"]));
    assert_eq!(
        problems,
        [format!("{PATH}[0].audiences: has one that is not among {AUDIENCES}: a review would reject its tokens")]
    );
    for (audiences, expected) in
        [(json!(["us", ""]), "none that is empty"), (json!(vec!["us"; 17]), "not have more than 16 entries")]
    {
        let (_, problems, _) = asking(audiences);
        assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
    }
    let unreviewed = json!({
        "tokens": {"audiences": ["gateway"]},
        "upstreamIdentity": "RequestHeader", "requestHeader": {"tokenReview": false},
    });
    let (_, problems, warnings) = checked_spec(&unreviewed);
    assert_eq!(problems, [""; 0]);
    // A policy that needs users turns them on, perhaps one of the settings, which no object shows.
    assert_eq!(warnings, [format!("{AUDIENCES}: {UNREVIEWED}")]);
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
    let checked = check_tokens(&serde_json::from_value(raw).unwrap(), &mut findings).issuers;
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
        ("/audiences", json!([""]), "audiences: must have none that is empty"),
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
fn check_of_revocation_is_read_within_its_bounds() {
    let asking = |period: &str| checked_spec(&json!({"tokens": {"checkRevocation": period, "issuers": [issuer()]}}));
    for (period, seconds) in [("10s", 10), ("1m", 60), ("10m", 600)] {
        let (tokens, problems, warnings) = asking(period);
        assert_eq!((problems, tokens.check_revocation), (vec![], Some(Duration::from_secs(seconds))));
        assert_eq!(warnings, [format!("{PATH}: {CHECKED}")]);
    }
    for period in ["9.9s", "601s", "0", "-1m", "soon"] {
        let (tokens, problems, _) = asking(period);
        assert!(problems.len() == 1 && problems[0].starts_with(CHECK), "{problems:?}");
        assert_eq!(tokens.check_revocation, None);
    }
    for (more, expected) in
        [(json!({}), CHECKED_BY_HTTP1), (json!({"requestHeader": {"tokenReview": false}}), BY_HTTP1)]
    {
        let mut spec =
            json!({"tokens": {"checkRevocation": "1m", "issuers": [issuer()]}, "upstreamIdentity": "RequestHeader"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (_, problems, warnings) = checked_spec(&spec);
        assert!(problems.is_empty() && warnings.contains(&format!("{PATH}: {expected}")), "{problems:?} {warnings:?}");
    }
    let (_, problems, warnings) = checked_spec(&json!({"tokens": {"checkRevocation": "1m"},
        "upstreamIdentity": "RequestHeader", "requestHeader": {"tokenReview": false}}));
    assert_eq!((problems, warnings.len()), (vec![], 2), "{warnings:?}");
    assert!(warnings.iter().all(|warning| warning.starts_with(CHECK)), "{warnings:?}");
}

#[test]
fn issuer_that_verifies_nothing_is_warned_of() {
    let mut changed = issuer();
    changed["jwks"]["inline"] = json!(r#"{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}"#);
    changed["claimMappings"]["username"]["prefix"] = json!("system:");
    let (_, problems, warnings) = checked(&changed);
    assert_eq!((problems, warnings.len()), (vec![], 3), "{warnings:?}");
}

use serde_json::{Value, json};

use super::*;
use crate::shown_keys::put_shown_keys;

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
    let checked = check_tokens(&serde_json::from_value(raw).unwrap(), false, &mut findings);
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

fn of_servers(inline: &str, shown: &ShownKeys) -> (Vec<TokenIssuer>, Vec<String>) {
    let mut issuer = issuer();
    issuer.as_object_mut().unwrap().remove("claimMappings");
    issuer["serviceAccounts"] = json!(true);
    issuer["jwks"] = json!({"fromServers": true, "inline": inline});
    let mut raw = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
        "spec": {"portcullis": {"tokens": {"issuers": [issuer]}}}, "status": "of the object",
    });
    put_shown_keys(&mut raw, &[(KeySource::Servers, shown.clone())].into());
    let mut findings = Findings::default();
    let checked = check_tokens(&serde_json::from_value(raw).unwrap(), false, &mut findings).issuers;
    (checked, findings.problems.iter().map(ToString::to_string).collect())
}

#[test]
fn keys_of_servers_hold_up_to_their_end_and_hide_no_mistake() {
    let own = issuer()["jwks"]["inline"].as_str().unwrap().to_owned();
    let two = own.replace("\"kid\":\"a\"", "\"kid\":\"of-servers\"");
    let shown = ShownKeys { keys: Some((two, 86_400)), error: None };
    for inline in ["", &own] {
        let (checked, problems) = of_servers(inline, &shown);
        assert_eq!(problems, [""; 0]);
        assert_eq!((checked[0].keys[0].id.as_str(), checked[0].keys_valid_until), ("of-servers", Some(86_400)));
    }
    let (checked, problems) = of_servers(&own, &ShownKeys::default());
    assert_eq!((problems, checked[0].keys[0].id.as_str(), checked[0].keys_valid_until), (vec![], "a", None));
    let (_, problems) = of_servers("{", &shown);
    assert!(problems.iter().any(|problem| problem.contains("jwks.inline: is no JSON Web Key Set")), "{problems:?}");
}

/// The keys, problems and warnings of an issuer whose keys are read from a URL.
fn at_url(jwks: Value, url: &str, shown: &BTreeMap<KeySource, ShownKeys>) -> (Tokens, Vec<String>, Vec<String>) {
    let mut issuer = issuer();
    (issuer["jwks"], issuer["url"]) = (jwks, json!(url));
    let mut raw = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
        "spec": {"portcullis": {"tokens": {"issuers": [issuer]}}},
    });
    put_shown_keys(&mut raw, shown);
    let mut findings = Findings::default();
    let tokens = check_tokens(&serde_json::from_value(raw).unwrap(), false, &mut findings);
    let texts = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect();
    (tokens, texts(&findings.problems), texts(&findings.warnings))
}

#[test]
fn issuer_is_asked_at_its_url_or_below_its_own() {
    let table = [
        (json!({"url": "https://keys.test/k?a=b"}), "https://a.test", Ok("https://keys.test:443/k?a=b")),
        (json!({"fromIssuer": true}), "https://a.test", Ok("https://a.test:443/.well-known/openid-configuration")),
        (json!({"fromIssuer": true}), "https://a.test/x/", Ok("https://a.test:443/x/.well-known/openid-configuration")),
        (json!({"fromIssuer": true}), "https://a.test?x", Err("fromIssuer: needs a url of the issuer without a query")),
        (json!({"fromIssuer": true}), "kubernetes/serviceaccount", Err("fromIssuer: needs a url of the issuer that")),
        (json!({"fromIssuer": true}), "https://169.254.169.254", Err("names a loopback address")),
    ];
    for (jwks, url, expected) in table {
        let (tokens, problems, _) = at_url(jwks.clone(), url, &BTreeMap::new());
        match expected {
            Ok(expected) => {
                assert_eq!(problems, [""; 0], "{jwks}");
                let asked: Vec<_> = tokens.asked_issuers.iter().map(|asked| asked.url.to_string()).collect();
                assert_eq!((asked, tokens.asked_issuers[0].issuer.as_str()), (vec![expected.to_owned()], url));
                assert_eq!(tokens.asked_issuers[0].is_discovery, jwks.get("fromIssuer").is_some());
            }
            Err(expected) => {
                assert!(problems.iter().any(|problem| problem.contains(expected)), "{jwks} {url}: {problems:?}");
                assert!(tokens.asked_issuers.is_empty());
            }
        }
    }
}

#[test]
fn keys_of_one_issuer_are_those_of_no_other() {
    let keys = issuer()["jwks"]["inline"].as_str().unwrap().to_owned();
    let shown = |source| [(source, ShownKeys { keys: Some((keys.clone(), 86_400)), error: None })].into();
    let (jwks, url) = (json!({"url": "https://keys.test/k"}), "https://a.test");
    let (tokens, problems, _) = at_url(jwks.clone(), url, &shown(KeySource::Issuer(url.to_owned())));
    assert_eq!((problems, tokens.issuers[0].keys.len()), (vec![], 1));
    assert_eq!(tokens.issuers[0].keys_valid_until, Some(86_400));
    for other in [KeySource::Issuer("https://b.test".to_owned()), KeySource::Servers] {
        let (tokens, problems, warnings) = at_url(jwks.clone(), url, &shown(other));
        assert_eq!((problems, tokens.issuers[0].keys.len(), warnings.len()), (vec![], 0, 2), "{warnings:?}");
    }
    // A written set alone takes none from elsewhere.
    let (tokens, ..) = at_url(json!({"inline": "{\"keys\":[]}"}), url, &shown(KeySource::Issuer(url.to_owned())));
    assert_eq!(tokens.issuers[0].keys.len(), 0);
    let failed = [(KeySource::Issuer(url.to_owned()), ShownKeys { keys: None, error: Some("why".to_owned()) })].into();
    let mut with_written = jwks.clone();
    with_written["inline"] = keys.clone().into();
    let (tokens, _, warnings) = at_url(with_written, url, &failed);
    assert_eq!((tokens.issuers[0].keys.len(), tokens.issuers[0].keys_valid_until), (1, None));
    assert_eq!(warnings[0], format!("{PATH}[0].jwks: why{KEPT_BEFORE_WRITTEN}"));
    let (_, problems, warnings) = at_url(jwks, url, &failed);
    assert_eq!((problems, warnings[0].as_str()), (vec![], &*format!("{PATH}[0].jwks: why{KEPT}")));
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
        check_tokens(&serde_json::from_value(raw).unwrap(), false, &mut findings);
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
        ("/jwks", json!({}), "jwks.inline: is required without fromServers, url or fromIssuer"),
        ("/jwks", json!({"url": "https://a.test", "fromIssuer": true}), "jwks: at most one of"),
        ("/jwks", json!({"url": "https://a.test", "fromServers": true}), "jwks: at most one of"),
        ("/jwks", json!({"url": "http://a.test"}), "jwks.url: must be https://"),
        ("/jwks", json!({"url": "https://127.0.0.1"}), "jwks.url: names a loopback address"),
        ("/jwks", json!({"url": "https://a.test", "certificateAuthority": "none"}), "jwks.certificateAuthority: "),
        ("/jwks/certificateAuthority", json!("none"), "jwks.certificateAuthority: is for url and fromIssuer"),
        ("/jwks", json!({"fromServers": true}), "jwks.fromServers: is for serviceAccounts only"),
        ("/jwks/inline", json!("{"), "jwks.inline: is no JSON Web Key Set"),
        ("/claimMappings", Value::Null, "exactly one of serviceAccounts and claimMappings"),
        ("/claimMappings/username/prefix", Value::Null, "username.prefix: is required"),
        ("/claimMappings/username/claim", json!(""), "username.claim: must have"),
    ];
    for (path, value, expected) in table {
        let mut changed = issuer();
        let (parent, name) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[name] = value;
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

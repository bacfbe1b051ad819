use super::*;
use crate::identity::Extra;

fn extras(user: &UserInfo) -> Vec<String> {
    user.extra.iter().map(|Extra { key, values }| format!("{key}={}", values.join(","))).collect()
}

#[test]
fn pods_token_names_account_and_pod_as_kube_apiserver_does() {
    let signer = Signer::new();
    let token = signer.sign(&pod_claims(NOW));
    let VerifiedToken { user, until, .. } = verified(signer.issuer(), &token, NOW).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str(), until), ("system:serviceaccount:shop:robot", "u-1", NOW + 600));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]);
    let expected = [
        "authentication.kubernetes.io/credential-id=JTI=4a5b",
        "authentication.kubernetes.io/node-name=n1",
        "authentication.kubernetes.io/node-uid=u-3",
        "authentication.kubernetes.io/pod-name=robot-7",
        "authentication.kubernetes.io/pod-uid=u-2",
    ];
    assert_eq!(extras(&user), expected);

    let plain = [("/jti", Value::Null), ("/kubernetes.io/pod", Value::Null), ("/kubernetes.io/node", Value::Null)];
    let token = signer.sign(&with(pod_claims(NOW), &plain));
    assert_eq!(extras(&verified(signer.issuer(), &token, NOW).unwrap().user), [""; 0]);
}

#[test]
fn token_that_differs_from_pods_is_left_to_the_servers() {
    let signer = Signer::new();
    let text = |text: &str| Value::from(text);
    let claim = NotVerified::Claim;
    let table = [
        ("/iss", text("https://other.example.com"), NotVerified::Key),
        ("/iss", Value::Null, claim("of that name")),
        ("/aud", Value::Null, claim("aud")),
        ("/aud", json!([]), claim("aud")),
        ("/aud", json!(["else"]), claim("aud")),
        ("/aud", json!(["api", 1]), claim("aud")),
        ("/exp", Value::Null, claim("exp")),
        ("/exp", json!(1.9e9), claim("exp")),
        ("/exp", json!(-1), claim("exp")),
        ("/exp", json!(u64::MAX), claim("exp")),
        ("/exp", json!("1900000600"), claim("exp")),
        ("/iat", Value::Null, claim("iat")),
        ("/nbf", json!("x"), claim("nbf")),
        ("/jti", json!(7), claim("jti")),
        ("/sub", text("system:serviceaccount:shop:other"), NotVerified::User),
        ("/sub", Value::Null, claim("of that name")),
        ("/Sub", text("other"), NotVerified::Form),
        ("/EXP", json!(0), NotVerified::Form),
        ("/i\u{17f}s", text("other"), NotVerified::Form),
        ("/_claim_names", json!({"groups": "a"}), NotVerified::Form),
        ("/kubernetes.io", Value::Null, claim("kubernetes.io")),
        ("/kubernetes.io/secret", json!({"name": "s", "uid": "u"}), claim("kubernetes.io")),
        ("/kubernetes.io/future", json!({}), claim("kubernetes.io")),
        ("/kubernetes.io/warnafter", text("x"), claim("kubernetes.io")),
        ("/kubernetes.io/namespace", text("kube-system"), NotVerified::User),
        ("/kubernetes.io/namespace", text("shop:robot"), NotVerified::User),
        ("/kubernetes.io/serviceaccount/uid", text(""), claim("kubernetes.io")),
        ("/kubernetes.io/serviceaccount/name", text("robot:x"), NotVerified::User),
        ("/kubernetes.io/pod/uid", Value::Null, claim("kubernetes.io")),
        ("/kubernetes.io/node/name", text(""), claim("kubernetes.io")),
    ];
    for (path, value, expected) in table {
        let token = signer.sign(&with(pod_claims(NOW), &[(path, value.clone())]));
        assert_eq!(verified(signer.issuer(), &token, NOW), Err(expected), "{path} {value}");
    }
    let legacy = json!({
        "iss": URL, "sub": "system:serviceaccount:shop:robot", "aud": "api", "iat": NOW, "exp": NOW + 9,
        "kubernetes.io/serviceaccount/namespace": "shop", "kubernetes.io/serviceaccount/service-account.name": "robot",
    });
    assert_eq!(verified(signer.issuer(), &signer.sign(&legacy), NOW), Err(claim("kubernetes.io")));
}

#[test]
fn token_is_valid_up_to_its_end_and_its_greatest_age() {
    let signer = Signer::new();
    let young = || TokenIssuer { max_age_seconds: 60, ..signer.issuer() };
    let token = signer.sign(&pod_claims(NOW));
    let at = |issuer, now| verified(issuer, &token, now).map(|verified| verified.until);
    let table = [
        (signer.issuer(), NOW + 599, Ok(NOW + 600)),
        (signer.issuer(), NOW + 600, Err(NotVerified::Time)),
        (young(), NOW + 59, Ok(NOW + 60)),
        (young(), NOW + 60, Err(NotVerified::Age)),
        (signer.issuer(), NOW - 60, Ok(NOW + 600)),
        (signer.issuer(), NOW - 61, Err(NotVerified::Time)),
        (signer.issuer(), 0, Err(NotVerified::Time)),
    ];
    for (issuer, now, expected) in table {
        assert_eq!(at(issuer, now), expected, "{now}");
    }
    let later = signer.sign(&with(pod_claims(NOW), &[("/nbf", json!(NOW + 100))]));
    assert_eq!(verified(signer.issuer(), &later, NOW + 39), Err(NotVerified::Time));
    assert!(verified(signer.issuer(), &later, NOW + 40).is_ok());
}

#[test]
fn keys_verify_up_to_their_own_end() {
    let signer = Signer::new();
    let issuer = || TokenIssuer { keys_valid_until: Some(NOW + 100), ..signer.issuer() };
    let token = signer.sign(&pod_claims(NOW));
    let at = |now| verified(issuer(), &token, now).map(|verified| verified.until);
    assert_eq!([at(NOW), at(NOW + 99)], [Ok(NOW + 100); 2]);
    assert_eq!(at(NOW + 100), Err(NotVerified::OldKeys));
}

fn login(changes: &[(&str, Value)]) -> Value {
    let claims = json!({
        "iss": URL, "aud": "api", "exp": NOW + 600, "iat": NOW, "sub": "7", "email": "a@example.com",
        "groups": ["dev", "ops"], "hd": "example.com", "deep": [[[[1.5, null, true]]]],
    });
    with(claims, changes)
}

#[test]
fn provider_names_users_and_groups_behind_its_prefix() {
    let signer = Signer::new();
    let user = |username: &str, prefix: &str, changes: &[(&str, Value)]| {
        let token = signer.sign(&login(changes));
        verified(mapping(signer.issuer(), username, prefix), &token, NOW).map(|verified| verified.user)
    };
    let alice = user("sub", "x:", &[("/jti", json!("j"))]).unwrap();
    assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("x:7", ""));
    assert_eq!(alice.groups, ["x:dev", "x:ops", "system:authenticated"]);
    assert_eq!(extras(&alice), ["authentication.kubernetes.io/credential-id=JTI=j"]);
    assert_eq!(user("email", "", &[]).unwrap().name, "a@example.com");
    assert!(user("email", "", &[("/email_verified", json!(true))]).is_ok());
    assert_eq!(user("sub", "", &[("/groups", json!("dev"))]).unwrap().groups, ["dev", "system:authenticated"]);
    assert_eq!(user("sub", "", &[("/groups", Value::Null)]).unwrap().groups, ["system:authenticated"]);

    let refused = [
        ("email", "", "/email_verified", json!(false)),
        ("email", "", "/email_verified", json!("true")),
        ("sub", "", "/sub", json!("system:serviceaccount:kube-system:x")),
        ("sub", "", "/groups", json!(["dev", "system:masters"])),
        ("sub", "system:", "/groups", json!([])),
        ("sub", "", "/sub", json!("")),
        ("sub", "", "/groups", json!({"a": 1})),
        ("sub", "", "/groups", json!(["dev", 1])),
        ("name", "", "/hd", json!("x")),
        ("groups", "", "/hd", json!("x")),
    ];
    for (username, prefix, path, value) in refused {
        assert!(user(username, prefix, &[(path, value.clone())]).is_err(), "{username} {prefix} {path} {value}");
    }
}

#[test]
fn required_claims_are_texts_of_the_required_value() {
    let signer = Signer::new();
    let required = [("hd".to_owned(), "example.com".to_owned())];
    let issuer = || TokenIssuer { required_claims: required.clone().into(), ..mapping(signer.issuer(), "sub", "") };
    assert!(verified(issuer(), &signer.sign(&login(&[])), NOW).is_ok());
    for value in [Value::Null, json!("other"), json!(["example.com"])] {
        let token = signer.sign(&login(&[("/hd", value.clone())]));
        assert_eq!(verified(issuer(), &token, NOW), Err(NotVerified::RequiredClaim), "{value}");
    }
}

#[test]
fn issuers_of_a_cluster_verify_by_their_own_keys() {
    let (first, second) = (Signer::new(), Signer::new());
    let other = TokenIssuer {
        url: "https://second.example.com".to_owned(),
        keys: vec![second.key("k2")],
        ..mapping(second.issuer(), "sub", "second:")
    };
    let issuers = TokenIssuers::compile(&[first.issuer(), other]).unwrap().unwrap();
    let name = |token: String| issuers.verify(token.as_bytes(), NOW).map(|verified| verified.user.name);
    assert!(name(first.sign(&pod_claims(NOW))).is_ok());
    let claims = login(&[("/iss", json!("https://second.example.com"))]).to_string();
    let header = r#"{"alg":"ES256","kid":"k2"}"#;
    assert_eq!(name(second.sign_text(header, &claims)), Ok("second:7".to_owned()));
    // The first issuer's tokens with the second one's key.
    assert_eq!(name(second.sign_text(header, &pod_claims(NOW).to_string())), Err(NotVerified::Key));
    assert_eq!(name(first.sign(&login(&[("/iss", json!("https://second.example.com"))]))), Err(NotVerified::Key));
}

use super::*;

/// The example of RFC 7515, A.2: a signature by RS256, with the key's public part.
const RSA_SIGNED: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const RSA_SIGNATURE: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const RSA_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

fn rsa_key(n: &str, algorithm: Option<&str>) -> TokenKey {
    let key = TokenPublicKey::Rsa { n: n.to_owned(), e: "AQAB".to_owned() };
    TokenKey { id: "r".to_owned(), algorithm: algorithm.map(str::to_owned), key }
}

#[test]
fn rsa_signature_is_of_the_algorithm_that_the_key_allows() {
    let check = |key: &TokenKey, algorithm: &str, signature: Vec<u8>| {
        let token = SignedToken {
            payload: b"",
            signed: RSA_SIGNED.as_bytes(),
            signature,
            algorithm: algorithm.to_owned(),
            key_id: "r".to_owned(),
        };
        IssuerKey::compile(key).unwrap().check(&token)
    };
    let signature = || token::decode(RSA_SIGNATURE.as_bytes()).unwrap();
    let zeros = [vec![0, 0], token::decode(RSA_N.as_bytes()).unwrap()].concat();
    for key in [rsa_key(RSA_N, None), rsa_key(RSA_N, Some("RS256")), rsa_key(&encode(zeros), None)] {
        assert_eq!(check(&key, "RS256", signature()), Ok(()));
    }
    let key = rsa_key(RSA_N, None);
    for other in ["RS384", "RS512", "PS256", "PS384", "PS512"] {
        assert_eq!(check(&key, other, signature()), Err(NotVerified::Signature), "{other}");
    }
    for none in ["", "none", "rs256", "HS256", "ES256", "EdDSA"] {
        assert_eq!(check(&key, none, signature()), Err(NotVerified::Algorithm), "{none}");
    }
    assert_eq!(check(&rsa_key(RSA_N, Some("PS256")), "RS256", signature()), Err(NotVerified::Algorithm));
    let mut changed = signature();
    changed[9] ^= 1;
    assert_eq!(check(&key, "RS256", changed), Err(NotVerified::Signature));
    assert_eq!(check(&key, "RS256", vec![]), Err(NotVerified::Signature));
}

#[test]
fn weak_and_unreadable_keys_are_refused() {
    let issuer = |keys| TokenIssuer { keys, ..Signer::new().issuer() };
    let refused = |key| TokenIssuers::compile(&[issuer(vec![key])]).err();
    assert_eq!(refused(rsa_key(&encode([0x80; 128]), None)), Some(IssuersError::Key));
    assert_eq!(refused(rsa_key(&encode([0x80; 513]), None)), Some(IssuersError::Key));
    assert_eq!(refused(rsa_key("!", None)), Some(IssuersError::Key));
    assert_eq!(refused(TokenKey { id: String::new(), ..rsa_key(RSA_N, None) }), Some(IssuersError::Key));
    let short = TokenPublicKey::P256 { x: encode([1; 31]), y: encode([1; 32]) };
    assert_eq!(refused(TokenKey { key: short, ..rsa_key("", None) }), Some(IssuersError::Key));
    let compile = |issuers: &[TokenIssuer]| TokenIssuers::compile(issuers).map(|issuers| issuers.is_some());
    assert_eq!(compile(&[issuer(vec![rsa_key(RSA_N, None); 33])]), Err(IssuersError::TooMany));
    assert_eq!(compile(&vec![issuer(vec![]); 2]), Err(IssuersError::Issuer));
    assert_eq!(compile(&vec![issuer(vec![]); 17]), Err(IssuersError::TooMany));
    assert_eq!(compile(&[TokenIssuer { audiences: vec![], ..issuer(vec![]) }]), Err(IssuersError::Issuer));
    assert_eq!((compile(&[issuer(vec![])]), compile(&[])), (Ok(true), Ok(false)));
}

#[test]
fn token_is_verified_in_its_usual_spelling_only() {
    let signer = Signer::new();
    let claims = pod_claims(NOW).to_string();
    let outcome = |token: &str| verified(signer.issuer(), token, NOW).map(|verified| verified.until);
    let good = signer.sign_text(r#"{"alg":"ES256","kid":"k1","typ":"JWT","x5t":"a"}"#, &claims);
    assert!(outcome(&good).is_ok());

    for header in [
        r#"{"alg":"ES256"}"#,
        r#"{"alg":"ES256","kid":""}"#,
        r#"{"alg":"ES256","kid":1}"#,
        r#"{"kid":"k1"}"#,
        r#"{"alg":"ES256","kid":"k1","crit":["exp"]}"#,
        r#"{"alg":"ES256","kid":"k1","crit":[]}"#,
        r#"{"alg":"ES256","kid":"k1","b64":false}"#,
        r#"{"alg":"ES256","kid":"k1","jwk":{}}"#,
        r#"{"alg":"ES256","kid":"k1","x5c":[]}"#,
        r#"{"alg":"ES256","kid":"k1","typ":1}"#,
        r#"{"alg":"none","alg":"ES256","kid":"k1"}"#,
        r#"{"alg":"ES256","kid":"k1"} {}"#,
        r#"["ES256"]"#,
    ] {
        assert_eq!(outcome(&signer.sign_text(header, &claims)), Err(NotVerified::Form), "{header}");
    }
    let header = r#"{"alg":"ES256","kid":"k1"}"#;
    for (header, expected) in [
        (r#"{"alg":"ES256","kid":"k2"}"#, NotVerified::Key),
        (r#"{"alg":"ES384","kid":"k1"}"#, NotVerified::Algorithm),
        (r#"{"alg":"RS256","kid":"k1"}"#, NotVerified::Algorithm),
        (r#"{"alg":"HS256","kid":"k1"}"#, NotVerified::Algorithm),
        (r#"{"alg":"none","kid":"k1"}"#, NotVerified::Algorithm),
    ] {
        assert_eq!(outcome(&signer.sign_text(header, &claims)), Err(expected), "{header}");
    }
    let twice = format!(r#"{{"iss":"{URL}",{}"#, &claims[1..]);
    let deep = format!(r#"{{"a":{}{},{}"#, "[".repeat(9), "]".repeat(9), &claims[1..]);
    let wide = format!(r#"{{"a":[{}0],{}"#, "0,".repeat(3_000), &claims[1..]);
    for text in [&twice, &deep, &wide, "", "1", "[]", "{}x", "\u{0}"] {
        let problem = outcome(&signer.sign_text(header, text));
        assert_eq!(problem, Err(NotVerified::Form), "{}", text.get(..40).unwrap_or(text));
    }
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (encoded, payload) = signed.split_once('.').unwrap();
    for (token, expected) in [
        (format!("{signed}."), NotVerified::Signature),
        (format!("{signed}.{}", encode([0; 64])), NotVerified::Signature),
        (format!("{encoded}.{payload}A.{signature}"), NotVerified::Form),
        (format!("{encoded}.{payload}=.{signature}"), NotVerified::Form),
        (format!("{good}="), NotVerified::Form),
        (format!("{good}.{payload}"), NotVerified::Form),
        (format!("{good}."), NotVerified::Form),
        (signed.to_owned(), NotVerified::Form),
        (String::new(), NotVerified::Form),
        ("..".to_owned(), NotVerified::Form),
        (format!("{}.{payload}.{signature}", "A".repeat(2_000)), NotVerified::Form),
        (format!("{encoded}.{}.{signature}", "A".repeat(20_000)), NotVerified::Form),
        (r#"{"payload":"","signatures":[]}"#.to_owned(), NotVerified::Form),
    ] {
        assert_eq!(outcome(&token), Err(expected), "{token}");
    }
}

#[test]
fn signature_of_another_key_verifies_nothing() {
    let (signer, other) = (Signer::new(), Signer::new());
    let token = other.sign(&pod_claims(NOW));
    assert_eq!(verified(signer.issuer(), &token, NOW), Err(NotVerified::Signature));
    let only = TokenKey { algorithm: Some("ES384".to_owned()), ..signer.key(KEY_ID) };
    let issuer = TokenIssuer { keys: vec![only], ..signer.issuer() };
    assert_eq!(verified(issuer, &signer.sign(&pod_claims(NOW)), NOW), Err(NotVerified::Algorithm));
}

#[test]
fn forged_token_costs_one_check_of_a_signature_at_most() {
    let (signer, other) = (Signer::new(), Signer::new());
    let two = TokenIssuer { keys: vec![signer.key("a"), other.key("a")], ..signer.issuer() };
    assert_eq!(TokenIssuers::compile(&[two]).err(), Some(IssuersError::KeyId));
    let forged =
        |changes: &[(&str, Value)]| verified(signer.issuer(), &other.sign(&with(pod_claims(NOW), changes)), NOW);
    assert_eq!(forged(&[]), Err(NotVerified::Signature));
    assert_eq!(forged(&[("/exp", json!(NOW))]), Err(NotVerified::Time), "no signature is checked");
    assert_eq!(forged(&[("/aud", json!(["else"]))]), Err(NotVerified::Claim("aud")), "no signature is checked");
}

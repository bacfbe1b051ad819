//! JSON Web Tokens: the user whom kube-apiserver's own authenticators see in a forged token. A token is never verified here only,
//! and where both do, the user is the same. The other way round is the rule: what is unusual is left to the servers.
#![cfg(test)]

use std::collections::BTreeMap;

use portcullis_api::read_keys;
use portcullis_core::identity::UserInfo;
use portcullis_core::local_token::{NotVerified, TokenIssuers};
use portcullis_filter_config::{PrefixedClaim, TokenIssuer, TokenUsers};
use portcullis_oracle_tests::{Dice, Oracle, bytes};
use serde_json::Value;

const CASES: usize = 20_000;

fn issuer(raw: &Value) -> TokenIssuer {
    let texts = |list: &Value| list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    let claim = |raw: &Value| {
        let text = |field: &str| raw[field].as_str().unwrap().to_owned();
        (!raw.is_null()).then(|| PrefixedClaim { claim: text("claim"), prefix: text("prefix") })
    };
    let users = claim(&raw["username"]).map_or(TokenUsers::ServiceAccounts, |username| TokenUsers::ClaimMappings {
        username,
        groups: claim(&raw["groups"]),
    });
    let required = raw["requiredClaims"].as_object().into_iter().flatten();
    TokenIssuer {
        url: raw["url"].as_str().unwrap().to_owned(),
        audiences: texts(&raw["audiences"]),
        keys_valid_until: None,
        keys: read_keys(&raw["jwks"].to_string()).unwrap(),
        users,
        required_claims: required.map(|(claim, value)| (claim.clone(), value.as_str().unwrap().to_owned())).collect(),
        max_age_seconds: 3_600,
    }
}

fn text(value: &Value) -> String {
    String::from_utf8(bytes(value)).unwrap()
}

/// Name, UID, groups and extras.
type User = (String, String, Vec<String>, BTreeMap<String, Vec<String>>);

fn theirs(user: &Value) -> Option<User> {
    let texts = |list: &Value| list.as_array().unwrap().iter().map(text).collect();
    let extra = |one: &Value| (text(&one["key"]), texts(&one["values"]));
    let extras = || user["extra"].as_array().unwrap().iter().map(extra).collect();
    (!user.is_null()).then(|| (text(&user["name"]), text(&user["uid"]), texts(&user["groups"]), extras()))
}

fn ours(UserInfo { name, uid, groups, extra }: UserInfo) -> User {
    (name, uid, groups, extra.into_iter().map(|one| (one.key, one.values)).collect())
}

#[test]
fn tokens_verified_here_are_those_of_kube_apiserver() {
    let Some(oracle) = Oracle::or_skip("forged tokens beside kube-apiserver's") else { return };
    let (mut dice, cases) = Dice::from_environment(CASES);
    let mut lines = oracle.tokens(cases, dice.below(1 << 30));
    let issuers: Vec<TokenIssuer> = lines.remove(0).as_array().unwrap().iter().map(issuer).collect();
    assert!(issuers.iter().all(|issuer| issuer.keys.len() == 6), "no P-521, Ed25519 or RSA of 1024 bits");
    let alone = |issuer| TokenIssuers::compile(&[issuer]).unwrap().unwrap();
    let issuers: Vec<TokenIssuers> = issuers.into_iter().map(alone).collect();
    let (mut both, mut left, mut differences) = (0, 0, Vec::new());
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for case in &lines {
        let issuer = &issuers[usize::try_from(case["issuer"].as_u64().unwrap()).unwrap()];
        let here = issuer.verify(&bytes(&case["token"]), case["now"].as_u64().unwrap());
        match (here, theirs(&case["user"])) {
            (Ok(here), Some(there)) if ours(here.user.clone()) == there => both += 1,
            (Err(reason), Some(_)) => {
                left += 1;
                *reasons.entry(reason.to_string()).or_default() += 1;
                // Nothing that is signed by a stranger is ever theirs.
                assert!(!matches!(reason, NotVerified::Signature) || is_odd_signature(case), "{reason}: {case}");
            }
            (Err(_), None) => {}
            (Ok(here), there) => differences.push(format!("{case}\n  here {here:?}\n  kube-apiserver {there:?}")),
        }
    }
    println!("{cases} tokens: {both} verified by both, {left} by kube-apiserver only: {reasons:#?}");
    assert!(both > cases / 8 && left > cases / 50, "{both} and {left} of {cases}");
    differences.sort_by_key(String::len);
    let count = differences.len();
    differences.truncate(3);
    assert!(differences.is_empty(), "{count} differences\n{}", differences.join("\n"));
}

/// kube-apiserver takes salts of any length.
fn is_odd_signature(case: &Value) -> bool {
    case["what"].as_array().is_some_and(|what| what.iter().any(|one| one == "signature with another salt or sign"))
}

//! Bearer tokens, as kube-apiserver's authenticators find them.
#![cfg(test)]

use portcullis_core::credential::{bearer_token, subprotocol_token};
use portcullis_core::header_scan::{HeaderScan, Reserved};
use portcullis_oracle_tests::{Dice, Headers, Oracle, bytes, credentials, text};
use serde_json::{Value, json};

const CASES: usize = 20_000;

#[derive(Debug, PartialEq)]
enum Presented {
    Nothing,
    Token(Vec<u8>),
    Broken,
}

fn theirs(answer: &Value) -> Presented {
    match (&answer["token"], &answer["error"]) {
        (Value::Null, Value::Bool(false)) => Presented::Nothing,
        (Value::Null, _) => Presented::Broken,
        // docs/compatibility.md: a token that is not text cannot be in a TokenReview.
        (token, _) if std::str::from_utf8(&bytes(token)).is_err() => Presented::Broken,
        (token, _) => Presented::Token(bytes(token)),
    }
}

fn ours<E>(found: Result<Option<std::borrow::Cow<'_, [u8]>>, E>) -> Presented {
    match found {
        Ok(None) => Presented::Nothing,
        Ok(Some(token)) => Presented::Token(token.into_owned()),
        Err(_) => Presented::Broken,
    }
}

fn question(headers: &Headers) -> Value {
    let lines: Vec<[Value; 2]> = headers.iter().map(|(name, value)| [text(name), text(value)]).collect();
    json!({"ask": "credential", "headers": lines})
}

#[test]
fn tokens_are_those_that_kube_apiserver_finds() {
    let Some(oracle) = Oracle::or_skip("tokens beside kube-apiserver's") else { return };
    let (mut dice, cases) = Dice::from_environment(CASES);
    let requests: Vec<Headers> = (0..cases).map(|_| credentials(&mut dice)).collect();
    let answers = oracle.ask(&requests.iter().map(question).collect::<Vec<_>>());
    let (mut tokens, mut differences) = (0, Vec::new());
    for (headers, answer) in requests.iter().zip(answers) {
        let scan = HeaderScan::from_headers(
            headers.iter().map(|(name, value)| (&**name, &**value)),
            b"lab",
            Reserved::default(),
        );
        let bearer = ours(scan.authorization.map_or(Ok(None), bearer_token));
        let subprotocol =
            if scan.is_websocket { ours(subprotocol_token(&scan.subprotocols)) } else { Presented::Nothing };
        tokens += usize::from(matches!(subprotocol, Presented::Token(_)));
        let theirs = (theirs(&answer["bearer"]), theirs(&answer["subprotocol"]));
        if scan.bad_connection.is_none() && (&bearer, &subprotocol) != (&theirs.0, &theirs.1) {
            let shown: Vec<String> = headers
                .iter()
                .map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii()))
                .collect();
            differences.push(format!(
                "{}\n  kube-apiserver {theirs:?}\n  here {:?}",
                shown.join("\n"),
                (bearer, subprotocol)
            ));
        }
    }
    assert!(tokens > cases / 100, "some are tokens: {tokens}");
    differences.sort_by_key(String::len);
    differences.truncate(5);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

//! The client's own impersonation: what kube-apiserver's filter asks its authorizer, and as whom the request then acts.
#![cfg(test)]

use portcullis_oracle_tests::{Dice, Headers, Lab, Oracle, Outcome, impersonation, text};
use serde_json::{Value, json};

const CASES: usize = 10_000;

/// Requests that we refuse and kube-apiserver might allow (docs/compatibility.md).
fn is_refused_here_only(headers: &Headers) -> bool {
    let many = headers.len() > 60;
    many || headers.iter().any(|(name, value)| {
        let name = String::from_utf8_lossy(name);
        let is_known = matches!(&*name, "impersonate-user" | "impersonate-group" | "impersonate-uid");
        let key = name.strip_prefix("impersonate-extra-");
        let bad_key = key.is_some_and(|key| key.is_empty() || key == "%ff");
        let needs_value = !matches!(&*name, "impersonate-user" | "impersonate-uid");
        bad_key
            || (!is_known && key.is_none())
            || (needs_value && value.is_empty())
            || std::str::from_utf8(value).is_err()
    })
}

fn asked_here(attributes: &Value) -> Value {
    let field = |name: &str| attributes.get(name).and_then(Value::as_str).unwrap_or_default();
    assert_eq!(field("verb"), "impersonate");
    let part = |name: &str| text(field(name).as_bytes());
    json!({
        "group": part("group"), "resource": part("resource"), "subresource": part("subresource"),
        "namespace": part("namespace"), "name": part("name"),
    })
}

fn sorted(mut parts: Vec<Value>) -> Vec<String> {
    let mut parts: Vec<String> = parts.drain(..).map(|part| part.to_string()).collect();
    parts.sort();
    parts.dedup();
    parts
}

fn acting_here(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Refuse(_) => Value::Null,
        // Nothing was asked for: the client is itself.
        Outcome::Forward(None) => json!({"name": "client", "uid": "", "groups": ["system:authenticated"], "extra": []}),
        Outcome::Forward(Some(user)) => {
            let texts = |list: &[String]| list.iter().map(|item| text(item.as_bytes())).collect::<Vec<_>>();
            let extra: Vec<Value> = user
                .extra
                .iter()
                .map(|extra| json!({"key": text(extra.key.as_bytes()), "values": texts(&extra.values)}))
                .collect();
            json!({
                "name": text(user.name.as_bytes()), "uid": text(user.uid.as_bytes()), "groups": texts(&user.groups),
                "extra": extra,
            })
        }
    }
}

/// kube-apiserver has the values of a key in no order where two names decode to that key.
fn without_order(mut user: Value) -> Value {
    for extra in user.get_mut("extra").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(values) = extra["values"].as_array_mut() {
            values.sort_by_key(Value::to_string);
        }
    }
    user
}

fn question(headers: &Headers) -> Value {
    let lines: Vec<[Value; 2]> = headers.iter().map(|(name, value)| [text(name), text(value)]).collect();
    json!({"ask": "impersonation", "headers": lines})
}

/// The grant that the oracle gives (`granted` in testenv/oracle/impersonation.go).
fn is_granted(seed: &str, attributes: &Value) -> bool {
    let field = |name: &str| attributes.get(name).and_then(Value::as_str).unwrap_or_default();
    if field("verb") == "impersonate" || field("name") == "*" {
        return false;
    }
    let fields = ["verb", "group", "resource", "subresource", "namespace", "name"].map(field);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in std::iter::once(seed).chain(fields).flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    !hash.is_multiple_of(8)
}

#[test]
fn constrained_grants_count_as_kube_apiserver_counts_them() {
    let Some(oracle) = Oracle::or_skip("constrained impersonation beside kube-apiserver's") else { return };
    let (mut dice, cases) = Dice::from_environment(CASES);
    let requests: Vec<(Headers, String)> =
        (0..cases).map(|case| (impersonation(&mut dice), format!("{case}-{}", dice.below(1_000)))).collect();
    let questions: Vec<Value> = requests
        .iter()
        .map(|(headers, seed)| {
            let mut question = question(headers);
            question["seed"] = json!(seed);
            question
        })
        .collect();
    let answers = oracle.ask(&questions);
    if answers.iter().all(|answer| answer["constrained"] == json!(false)) {
        // A release before 1.35.
        return;
    }
    let lab = Lab::new(true);
    let (mut acting, mut refused, mut differences) = (0, 0, Vec::new());
    for (day, ((headers, seed), answer)) in (0..).zip(requests.iter().zip(answers)) {
        let judged = lab.judge_by(headers, day, |attributes| is_granted(seed, attributes));
        let is_refused = matches!(judged.outcome, Outcome::Refuse(_));
        acting += usize::from(matches!(judged.outcome, Outcome::Forward(Some(_))));
        refused += usize::from(judged.outcome == Outcome::Refuse(403));
        let is_equal = if is_refused {
            answer["code"] != json!(0) || is_refused_here_only(headers)
        } else {
            without_order(acting_here(&judged.outcome)) == without_order(answer["user"].clone())
        };
        if !is_equal {
            differences.push(format!("{seed} {headers:?}\n  kube-apiserver {answer}\n  here {judged:?}"));
        }
    }
    assert!(acting > cases / 8 && refused > cases / 8, "some may, and some may not: {acting} and {refused}");
    differences.sort_by_key(String::len);
    differences.truncate(5);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn clients_act_as_whom_kube_apiserver_would_let_them() {
    let Some(oracle) = Oracle::or_skip("impersonation beside kube-apiserver's") else { return };
    let (mut dice, cases) = Dice::from_environment(CASES);
    let requests: Vec<Headers> = (0..cases).map(|_| impersonation(&mut dice)).collect();
    let answers = oracle.ask(&requests.iter().map(question).collect::<Vec<_>>());
    let lab = Lab::default();
    let (mut acting, mut differences) = (0, Vec::new());
    for (day, (headers, answer)) in (0..).zip(requests.iter().zip(answers)) {
        let judged = lab.judge(headers, day);
        acting += usize::from(matches!(judged.outcome, Outcome::Forward(Some(_))));
        let is_equal = if matches!(judged.outcome, Outcome::Refuse(_)) {
            answer["code"] != json!(0) || is_refused_here_only(headers)
        } else {
            let theirs = answer["parts"].as_array().cloned().unwrap_or_default();
            let ours: Vec<Value> = judged.asked.iter().map(asked_here).collect();
            without_order(acting_here(&judged.outcome)) == without_order(answer["user"].clone())
                && sorted(ours) == sorted(theirs)
        };
        if !is_equal {
            let shown: Vec<String> = headers
                .iter()
                .map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii()))
                .collect();
            differences.push(format!("{}\n  kube-apiserver {answer}\n  here {judged:?}", shown.join("\n")));
        }
    }
    assert!(acting > cases / 4, "many act as somebody: {acting}");
    differences.sort_by_key(String::len);
    differences.truncate(5);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

//! The user as header lines: as client-go writes them, and read back by kube-apiserver's filter as the same user.
#![cfg(test)]

use portcullis_core::identity::UserInfo;
use portcullis_core::upstream_user::UpstreamUser;
use portcullis_oracle_tests::{Dice, Oracle, bytes, text, user};
use serde_json::{Value, json};

const CASES: usize = 10_000;

fn told(user: &UserInfo) -> Value {
    let texts = |list: &[String]| list.iter().map(|item| text(item.as_bytes())).collect::<Vec<_>>();
    let mut extra: Vec<Value> = user
        .extra
        .iter()
        .map(|extra| json!({"key": text(extra.key.as_bytes()), "values": texts(&extra.values)}))
        .collect();
    extra.sort_by_key(|extra| bytes(&extra["key"]));
    json!({
        "name": text(user.name.as_bytes()), "uid": text(user.uid.as_bytes()), "groups": texts(&user.groups), "extra": extra,
    })
}

fn lines(user: &UserInfo) -> Vec<[Value; 2]> {
    let told = UpstreamUser::new(user.clone()).unwrap();
    told.header_lines().iter().map(|(name, value)| [text(name.as_bytes()), text(value.as_bytes())]).collect()
}

#[test]
fn upstream_reads_the_same_user() {
    let Some(oracle) = Oracle::or_skip("identities read back by kube-apiserver") else { return };
    let (mut dice, cases) = Dice::from_environment(CASES);
    let users: Vec<UserInfo> = (0..cases).map(|_| user(&mut dice)).collect();
    let questions: Vec<Value> =
        users.iter().map(|user| json!({"ask": "impersonation", "headers": lines(user)})).collect();
    for (user, answer) in users.iter().zip(oracle.ask(&questions)) {
        assert_eq!(answer["user"], told(user), "{user:?}");
    }
}

#[test]
fn lines_are_those_of_client_go() {
    let Some(oracle) = Oracle::or_skip("identities beside client-go's") else { return };
    let (mut dice, cases) = Dice::from_environment(CASES);
    // client-go loses the case of a key; we do not.
    let is_lower = |user: &UserInfo| user.extra.iter().all(|extra| extra.key == extra.key.to_ascii_lowercase());
    let users: Vec<UserInfo> = (0..cases).map(|_| user(&mut dice)).filter(is_lower).collect();
    let questions: Vec<Value> = users.iter().map(|user| json!({"ask": "identity", "user": told(user)})).collect();
    let in_order = |lines: &[Value]| {
        let mut lines: Vec<String> = lines
            .iter()
            .map(|line| format!("{}: {}", line[0].as_str().unwrap().to_ascii_lowercase(), line[1].as_str().unwrap()))
            .collect();
        // client-go has no order over names, and one name's lines are in order in both.
        lines.sort_by_key(|line| line.split(':').next().map(str::to_owned));
        lines
    };
    for (user, answer) in users.iter().zip(oracle.ask(&questions)) {
        let ours: Vec<Value> = lines(user).into_iter().map(Value::from_iter).collect();
        let (ours, mut theirs) = (in_order(&ours), in_order(answer["lines"].as_array().unwrap()));
        // kube-apiserver adds the group that we leave out, as the test after this one sees.
        let is_left_out = |line: &String| line == "impersonate-group: system:authenticated" && !ours.contains(line);
        let groups = theirs.iter().filter(|line| line.starts_with("impersonate-group: ")).count();
        theirs.retain(|line| groups < 2 || !is_left_out(line));
        assert_eq!(ours, theirs, "{user:?}");
    }
}

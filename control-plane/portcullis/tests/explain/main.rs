//! `portcullis explain` as an operator and a policy test meet it.

#![cfg(test)]

mod certificates;
mod flows;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const CLUSTER: &str = r#"
apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: a.test}
spec:
  servers: [{endpoint: "https://10.0.0.1:6443"}, {endpoint: "https://10.0.0.2:6443"}]
  secureServing: {serverNames: ["*.shared.test"]}
  flowControl:
    flowControlSchemas: [{name: some, maxRequestsInflight: {max: 5}}, {name: none, maxRequestsInflight: {max: 0}}, {name: few, tokenBucket: {qps: 1, burst: 1}}]
  dispatchPolicies:
  - rules: [{verbs: [create], apiGroups: ["*"], resources: ["*"], users: ["-bob"]}]
    flowControlSchemaName: some
    upstreamSubset: ["https://10.0.0.1:6443"]
    strategy: LeastRequest
  - rules:
    - {verbs: ["*"], nonResourceURLs: ["/healthz*"]}
    - {verbs: [list, watch, get], apiGroups: [""], resources: [pods, pods/exec], userGroups: [dev, "system:unauthenticated"]}
  - rules: [{verbs: [delete], apiGroups: ["*"], resources: ["*"]}]
    flowControlSchemaName: none
  - rules: [{verbs: [get], nonResourceURLs: [/few]}]
    flowControlSchemaName: few
"#;

const ALLOWED: &str = "---
apiVersion: portcullis.dev/v1alpha1
kind: GatewaySettings
metadata: {name: g}
spec: {wildcardSubdomains: Allowed}
";

fn portcullis(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_portcullis"))
        .env_clear()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A call that is wrong ends before it reads.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

struct World {
    dir: tempfile::TempDir,
    file: PathBuf,
}

impl World {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("clusters.yaml");
        std::fs::write(&file, text).unwrap();
        World { dir, file }
    }

    fn batch(&self, requests: &[Value]) -> (Vec<Value>, Output) {
        batch(&["explain", "-f", self.file.to_str().unwrap(), "--batch"], requests)
    }

    fn one(&self, request: Value) -> Value {
        let (mut answers, _) = self.batch(&[request]);
        answers.remove(0)
    }
}

fn batch(arguments: &[&str], requests: &[Value]) -> (Vec<Value>, Output) {
    let input: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let output = portcullis(arguments, &input);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), requests.len(), "{}", String::from_utf8_lossy(&output.stderr));
    (answers, output)
}

fn get(target: &str) -> Value {
    json!({"method": "GET", "target": target, "user": {"name": "alice", "groups": ["dev"]}})
}

fn with(mut request: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

#[test]
fn name_below_a_wildcard_leads_to_whoever_owns_it() {
    let other = |name: &str, names: &str| {
        CLUSTER.replace("{name: a.test}", &format!("{{name: {name}}}")).replace("[\"*.shared.test\"]", names)
    };
    let both = format!("{CLUSTER}---{}", other("b.test", "[x.shared.test]"));
    for (text, owner) in [(both.clone(), "a.test"), (both + ALLOWED, "b.test")] {
        let world = World::new(&text);
        let file = world.file.to_str().unwrap();
        let line = ["explain", "-f", file, "GET", "/healthz", "--host", "x.shared.test", "--user", "alice"];
        let output = portcullis(&line, "");
        let answer = String::from_utf8(output.stdout).unwrap();
        assert!(answer.contains(owner), "{answer}");
        let told = String::from_utf8(output.stderr).unwrap() + &answer;
        assert_eq!(told.contains("belongs to the UpstreamCluster a.test"), owner == "a.test", "{told}");
    }
}

#[test]
fn answer_has_every_part_that_applies_and_null_for_the_rest() {
    let world = World::new(CLUSTER);
    let request = with(
        get("/api/v1/namespaces/x/pods?watch=1&fieldSelector=metadata.name%3Dp"),
        json!({"id": {"any": 1}, "host": "A.test:6443", "headers": [["Accept", "*/*"], ["X-Remote-User", "root"]]}),
    );
    let answer = world.one(request);
    assert_eq!(
        answer,
        json!({
            "id": {"any": 1},
            "requestInfo": {
                "isResourceRequest": true, "verb": "watch", "apiPrefix": "api", "apiGroup": "", "apiVersion": "v1",
                "namespace": "x", "resource": "pods", "subresource": "", "name": "p", "parts": ["pods"],
                "path": "/api/v1/namespaces/x/pods", "fieldSelector": "metadata.name=p", "labelSelector": "",
                "longRunning": true,
            },
            "credential": {"outcome": "none", "source": null, "tokenSha256": null, "subprotocolsAfterSuccess": null},
            "dispatch": {
                "upstreamCluster": "a.test", "matched": true, "policy": 1, "rule": 1, "flowControlSchema": null,
                "flow": null,
                "upstreamSubset": null, "strategy": "RoundRobin",
                "trace": ["policy 0, rule 0: verbs [\"create\"] do not cover \"watch\""],
            },
            "upstreamHeaders": [
                ["accept", "*/*"], ["impersonate-user", "alice"], ["impersonate-group", "dev"],
            ],
            "refusal": null,
        })
    );
    let (few, _) = world.batch(&[get("/few"), get("/few")]);
    assert_eq!(few[1]["refusal"], Value::Null, "an earlier request takes nothing from a later one");
    let token = |review: Value| json!({"method": "GET", "target": "/healthz", "headers": [["Authorization", "Bearer x"]], "reviews": {"token": review}});
    let user = |name: &str| token(json!({"authenticated": true, "user": {"username": name}}));
    let rejected = token(json!({"authenticated": false}));
    let (answers, _) = world.batch(&[user("a"), user("b"), rejected, token(Value::Null), user("c")]);
    let names: Vec<_> = answers.iter().map(|answer| &answer["upstreamHeaders"][0][1]).collect();
    assert_eq!(names, [&json!("a"), &json!("b"), &Value::Null, &Value::Null, &json!("c")], "each has its own reviews");
    let codes: Vec<_> = answers.iter().map(|answer| &answer["refusal"]["code"]).collect();
    assert_eq!(codes, [&Value::Null, &Value::Null, &json!(401), &json!(503), &Value::Null]);
    let plain = world.one(get("/healthz"));
    assert_eq!(plain["requestInfo"]["parts"], Value::Null);
    assert_eq!(plain["dispatch"]["policy"], 1);
    assert_eq!(plain["dispatch"]["rule"], 0);
    let subset = world.one(with(get("/api/v1/namespaces/x/pods"), json!({"method": "POST"})));
    assert_eq!(subset["dispatch"]["upstreamSubset"], json!(["https://10.0.0.1:6443"]));
    assert_eq!(subset["dispatch"]["flowControlSchema"], "some");
    assert_eq!(subset["dispatch"]["strategy"], "LeastRequest");
}

#[test]
fn refusals_say_what_the_gateway_would() {
    let world = World::new(CLUSTER);
    let rejected = json!({"user": null, "headers": [["Authorization", "Bearer x"]], "reviews": {"token": {}}});
    let unreviewed = json!({"user": null, "headers": [["Authorization", "Bearer x"]]});
    let twice = json!({"headers": [["Authorization", "Bearer x"], ["Authorization", "Bearer y"]]});
    let (list, named) = ("/api/v1/pods", "/api/v1/namespaces/x/pods/p");
    let cases = [
        (get("/api/v1/secrets"), 403, "Forbidden", Value::Null),
        (with(get(list), json!({"host": "b.test"})), 421, "MisdirectedRequest", Value::Null),
        (get("/api/v1/namespaces/a%2Fb/pods"), 400, "BadRequest", Value::Null),
        (get("/api/v1/watch"), 400, "BadRequest", Value::Null),
        (get("/api/v1/p%zz"), 400, "BadRequest", Value::Null),
        (with(get(named), json!({"method": "DELETE"})), 429, "TooManyRequests", json!(1)),
        (with(get(list), rejected), 401, "Unauthorized", Value::Null),
        (with(get(list), unreviewed), 503, "ServiceUnavailable", json!(1)),
        (with(get(list), twice), 400, "BadRequest", Value::Null),
        (with(get(list), json!({"headers": [["Impersonate-User", "b"]]})), 403, "Forbidden", Value::Null),
        (with(get(list), json!({"headers": [["Impersonate-Group", "b"]]})), 400, "BadRequest", Value::Null),
        (with(get(list), json!({"headers": [["Impersonate-Foo", "b"]]})), 403, "Forbidden", Value::Null),
        (with(get(list), json!({"user": {"name": ""}})), 401, "Unauthorized", Value::Null),
        (with(get(list), json!({"user": {"name": " a"}})), 401, "Unauthorized", Value::Null),
    ];
    for (request, code, reason, retry_after) in cases {
        let answer = world.one(request.clone());
        let refusal = &answer["refusal"];
        assert_eq!((&refusal["code"], &refusal["reason"]), (&json!(code), &json!(reason)), "{request} {answer}");
        assert_eq!(refusal["retryAfter"], retry_after, "{request}");
        assert_eq!(answer["upstreamHeaders"], Value::Null, "{request}");
    }
    let encoded = world.one(get("/api/v1/namespaces/a%2Fb/pods"));
    assert_eq!(encoded["requestInfo"]["parts"], json!(["b", "pods"]), "kube-apiserver's reading is shown nevertheless");
    assert_eq!(world.one(get("/api/v1/watch"))["requestInfo"], Value::Null);
    assert_eq!(world.one(get("/api/v1/secrets"))["dispatch"]["matched"], false);
    assert_eq!(world.one(get("/api/v1/secrets"))["dispatch"]["trace"].as_array().unwrap().len(), 4);
    assert_eq!(world.one(with(get(named), json!({"method": "DELETE"})))["dispatch"]["policy"], 2);
}

#[test]
fn upstream_user_is_that_of_the_credential() {
    let world = World::new(CLUSTER);
    let identity = |request: Value| -> Vec<String> {
        let answer = world.one(request);
        let headers = answer["upstreamHeaders"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        let line = |header: &Value| format!("{}: {}", header[0].as_str().unwrap(), header[1].as_str().unwrap());
        headers.iter().map(line).filter(|line| line.starts_with("impersonate") || line.starts_with("auth")).collect()
    };
    let nobody = json!({"user": null});
    assert_eq!(identity(with(get("/healthz"), nobody)), [""; 0]);
    let status = json!({"authenticated": true, "user": {"username": "u", "uid": "1", "groups": ["g"],
        "extra": {"scopes": ["a", "b"], "example.com/Zone": ["z"]}}});
    let by_token = json!({"user": null, "headers": [["authorization", "Bearer x"], ["Impersonate_User", "root"]],
        "reviews": {"token": status}});
    assert_eq!(
        identity(with(get("/healthz"), by_token.clone())),
        [
            "impersonate-user: u",
            "impersonate-uid: 1",
            "impersonate-group: g",
            "impersonate-extra-example.com%2f%5aone: z",
            "impersonate-extra-scopes: a",
            "impersonate-extra-scopes: b",
        ]
    );
    for status in [json!({"authenticated": false, "user": null}), json!({"authenticated": true, "user": null})] {
        let again = json!({"user": null, "headers": [["authorization", "Bearer x"]], "reviews": {"token": status}});
        let code = if status["authenticated"] == true { 503 } else { 401 };
        let answers = world.batch(&[with(get("/healthz"), by_token.clone()), with(get("/healthz"), again)]).0;
        assert_eq!(answers[1]["refusal"]["code"], code, "one line's review is not another's");
    }
    let as_other = json!({"headers": [["Impersonate-User", "bob"], ["Impersonate-Group", "ops"]],
        "reviews": {"impersonation": "allow"}});
    assert_eq!(identity(with(get("/healthz"), as_other)), ["impersonate-user: bob", "impersonate-group: ops"]);
    let not_answered = json!({"headers": [["Impersonate-User", "bob"]], "reviews": {"impersonation": "error"}});
    assert_eq!(world.one(with(get("/healthz"), not_answered))["refusal"]["code"], 503);
}

#[test]
fn gateways_settings_are_explained_too() {
    let settings = |spec: &str| {
        let head = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: x}\nspec:";
        format!("{CLUSTER}---\n{head} {spec}\n")
    };
    let master = json!({"user": {"name": "root", "groups": ["system:masters", "dev"]}});
    let request = || with(get("/healthz"), master.clone());
    let plain = World::new(&settings("{}")).one(request());
    assert!(plain["upstreamHeaders"].to_string().contains("system:masters"), "{plain}");
    let refused = World::new(&settings("{protectedIdentities: {groups: [\"system:masters\"]}}")).one(request());
    assert!(refused["refusal"]["message"].as_str().unwrap().contains("system:masters"), "{refused}");
    let dropping = settings("{protectedIdentities: {groups: [\"system:masters\"], action: DropGroup}}");
    let dropped = World::new(&dropping).one(request());
    assert!(!dropped["upstreamHeaders"].to_string().contains("system:masters"), "{dropped}");
    assert_eq!(dropped["dispatch"]["matched"], true, "{dropped}");
    let wrong = World::new(&settings("{protectedIdentities: {action: Drop}}"));
    let wrong = portcullis(&["explain", "-f", wrong.file.to_str().unwrap(), "GET", "/healthz"], "");
    assert!(!wrong.status.success(), "nobody guesses what is protected");
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("spec.protectedIdentities.action"));
}

#[test]
fn credentials_are_read_without_clusters() {
    let token = "base64url.bearer.authorization.k8s.io.dG9rZW4";
    let upgrade = |protocols: &str| {
        json!({"method": "GET", "target": "/", "headers": [["Connection", "keep-alive, Upgrade"], ["Upgrade", "websocket"],
            ["Sec-WebSocket-Protocol", protocols]]})
    };
    let bearer = |value: &str| json!({"method": "GET", "target": "/", "headers": [["Authorization", value]]});
    let sha_of_token = "3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0";
    let (answers, output) = batch(
        &["explain", "--batch"],
        &[
            bearer("Bearer token"),
            bearer("Basic token"),
            bearer("Bearer  token"),
            with(bearer("x"), json!({"headers": [["Authorization", "Bearer token"], ["authorization", "Basic x"]]})),
            upgrade(&format!("{token}, v5.channel.k8s.io,v4.channel.k8s.io")),
            upgrade(token),
            upgrade("v5.channel.k8s.io"),
        ],
    );
    assert!(output.status.success());
    let credential = |outcome: &str, source: Value, sha: Value, left: Value| json!({"outcome": outcome, "source": source, "tokenSha256": sha, "subprotocolsAfterSuccess": left});
    let none = credential("none", Value::Null, Value::Null, Value::Null);
    let expected = [
        credential("token", json!("authorization"), json!(sha_of_token), Value::Null),
        none.clone(),
        none.clone(),
        credential("error", json!("authorization"), Value::Null, Value::Null),
        credential("token", json!("websocket"), json!(sha_of_token), json!("v5.channel.k8s.io,v4.channel.k8s.io")),
        credential("error", json!("websocket"), Value::Null, Value::Null),
        none,
    ];
    for (answer, expected) in answers.iter().zip(expected) {
        assert_eq!(answer["credential"], expected);
        assert_eq!(answer["dispatch"], Value::Null);
        assert_eq!(answer["upstreamHeaders"], Value::Null);
    }
}

#[test]
fn several_clusters_are_told_apart_by_the_host() {
    let second = CLUSTER.replace("a.test", "x.shared.test").replace("*.shared", "b");
    let world = World::new(&format!("{CLUSTER}---{second}{ALLOWED}"));
    let cluster = |host: Value| {
        let (answers, output) = world.batch(&[with(get("/healthz"), json!({"host": host}))]);
        (answers[0].clone(), output.status.success())
    };
    for (host, name) in [
        ("a.test", "a.test"),
        ("y.shared.test:443", "a.test"),
        ("X.shared.test.", "x.shared.test"),
        ("b.test", "x.shared.test"),
    ] {
        assert_eq!(cluster(json!(host)).0["dispatch"]["upstreamCluster"], name, "{host}");
    }
    for host in ["c.test", "10.0.0.1"] {
        assert_eq!(cluster(json!(host)).0["refusal"]["code"], 503, "{host}");
    }
    let (answer, succeeded) = cluster(Value::Null);
    assert!(answer["error"].as_str().unwrap().contains("host") && !succeeded, "{answer}");
}

#[test]
fn expectations_make_it_a_test() {
    let world = World::new(CLUSTER);
    let met = json!({"dispatch": {"policy": 1}, "refusal": null, "requestInfo": {"verb": "list"}});
    let (_, output) =
        world.batch(&[with(get("/api/v1/pods"), json!({"expect": met})), with(get("/x"), json!({"expect": {}}))]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (answers, output) =
        world.batch(&[with(get("/api/v1/pods"), json!({"id": "x", "expect": {"dispatch": {"policy": 2}}}))]);
    assert!(!output.status.success());
    assert_eq!(answers[0]["differences"], json!(["dispatch.policy: expected 2, got 1"]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("dispatch.policy: expected 2, got 1"));
}

#[test]
fn one_request_can_be_asked_by_flags_and_a_wrong_call_is_told() {
    let world = World::new(CLUSTER);
    let directory = world.dir.path().to_str().unwrap();
    let flags = ["explain", "-f", directory, "GET", "/api/v1/pods", "--user", "alice", "--group", "dev"];
    let yaml = String::from_utf8(portcullis(&flags, "").stdout).unwrap();
    assert!(yaml.starts_with("id:") && yaml.contains("\n  policy: 1\n"), "{yaml}");
    let output = portcullis(&[&flags[..], &["-o", "json"]].concat(), "");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success());
    assert_eq!(answer["dispatch"]["policy"], 1);
    let (answers, output) = batch(
        &["explain", "--batch"],
        &[
            json!({"id": 7, "method": "GET", "targt": "/"}),
            json!([]),
            json!({"method": "GET", "target": "/", "note": 1}),
        ],
    );
    assert!(answers[0]["error"].as_str().unwrap().contains("target") && answers[1]["error"].is_string());
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(7), &Value::Null), "told apart even so");
    assert_eq!(answers[2]["error"], Value::Null, "a field that is not known is told, and does no harm");
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("note"));
    for wrong in [&["explain"][..], &["explain", "-f", "/nowhere", "GET", "/"], &["explain", "--batch", "GET", "/"]] {
        assert!(!portcullis(wrong, "").status.success(), "{wrong:?}");
    }
}

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use portcullis_sources::{StoredStatus, WatchedKind};
use serde_json::{Value, json};

use super::super::write::{StatusWrite, write};
use super::super::write_queue::WriteOutcome;
use super::*;

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";

/// An API server with one object.
struct ScriptedApi {
    /// The answer to a JSON patch.
    to_json: u16,
    /// The answers to merge patches; the last one is that to all further ones.
    to_merges: Vec<u16>,
    /// The object, if it is there.
    object: Option<Value>,
    /// The requests.
    asked: Mutex<Vec<String>>,
}

fn respond(code: u16, body: &Value) -> Response {
    let code = StatusCode::from_u16(code).unwrap();
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn answer(State(api): State<Arc<ScriptedApi>>, request: Request<axum::body::Body>) -> Response {
    let (parts, body) = request.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let body = axum::body::to_bytes(body, 4 << 20).await.unwrap();
    let version = serde_json::from_slice::<Value>(&body).ok();
    let version = version.and_then(|patch| Some(patch.pointer("/metadata/resourceVersion")?.as_str()?.to_owned()));
    let mut asked = api.asked.lock().unwrap();
    let merges = asked.iter().filter(|one| one.contains(MERGE)).count();
    asked.push(format!("{} {} {kind} {}", parts.method, parts.uri, version.unwrap_or_default()).trim_end().to_owned());
    if parts.method == Method::GET {
        let items: Vec<&Value> = api.object.iter().collect();
        return respond(200, &json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}));
    }
    let code = if kind == JSON { api.to_json } else { *api.to_merges.get(merges).or(api.to_merges.last()).unwrap() };
    match code {
        200 => respond(200, &json!({"metadata": {"name": "a"}})),
        code => respond(code, &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code})),
    }
}

/// The outcome of a write over a list, and the requests.
async fn written(api: ScriptedApi, read: Value, wanted: Value) -> (WriteOutcome, Vec<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let api = Arc::new(api);
    let app = Router::new().fallback(answer).with_state(Arc::clone(&api));
    tokio::spawn(async { axum::serve(listener, app).await });
    let client = Client::try_from(kube::Config::new(uri)).unwrap();
    let key = ObjectKey { kind: WatchedKind::HttpRoute, namespace: "team".to_owned(), name: "a".to_owned() };
    let stored = StoredStatus { uid: Some("u".to_owned()), status: read, ..StoredStatus::default() };
    let lists = ReplacedLists::of(&stored, wanted).unwrap();
    let (_, outcome, _) = write(client, key, StatusWrite::Replace(lists)).await;
    let asked = api.asked.lock().unwrap().clone();
    (outcome, asked)
}

fn object(uid: &str, parents: &Value) -> Option<Value> {
    let metadata = json!({"name": "a", "uid": uid, "resourceVersion": "7"});
    Some(json!({"metadata": metadata, "status": {"parents": parents}}))
}

#[tokio::test]
async fn newest_version_is_read_where_lists_cannot_be_compared() {
    let routes = "/apis/gateway.networking.k8s.io/v1/namespaces/team/httproutes";
    let patch = |kind: &str, version: &str| {
        format!("PATCH {routes}/a/status?&fieldManager=portcullis {kind} {version}").trim_end().to_owned()
    };
    let list = format!("GET {routes}?&fieldSelector=metadata.name%3Da");
    let same = || object("u", &json!([1]));
    let table = [
        ("the lists are the same", 200, vec![], same(), WriteOutcome::Written, 0, 0),
        ("the server compares otherwise", 422, vec![200], same(), WriteOutcome::Written, 1, 1),
        ("the server takes no such length", 413, vec![200], same(), WriteOutcome::Written, 1, 1),
        ("an author edits labels", 422, vec![409, 409, 200], same(), WriteOutcome::Written, 3, 3),
        ("an author always comes before", 422, vec![409], same(), WriteOutcome::Gone, MAX_VERSIONS, MAX_VERSIONS),
        ("another entry", 422, vec![], object("u", &json!([1, 2])), WriteOutcome::Gone, 1, 0),
        ("another object", 422, vec![], object("v", &json!([1])), WriteOutcome::Gone, 1, 0),
        ("no object", 422, vec![], None, WriteOutcome::Gone, 1, 0),
        ("the definition refuses it", 422, vec![422], same(), WriteOutcome::Refused, 1, 1),
        ("it is gone", 404, vec![], None, WriteOutcome::Gone, 0, 0),
        ("a conflict", 409, vec![], same(), WriteOutcome::Gone, 0, 0),
        ("no right", 403, vec![], same(), WriteOutcome::Refused, 0, 0),
        ("no such patch", 415, vec![], same(), WriteOutcome::Refused, 0, 0),
        ("the server fails at it", 500, vec![], same(), WriteOutcome::Failed, 0, 0),
        ("the server is ill", 502, vec![], same(), WriteOutcome::Away, 0, 0),
        ("the server falls ill", 422, vec![502], same(), WriteOutcome::Away, 1, 1),
    ];
    for (name, to_json, to_merges, object, expected, lists, merges) in table {
        let api = ScriptedApi { to_json, to_merges, object, asked: Mutex::default() };
        let (outcome, asked) = written(api, json!({"parents": [1]}), json!({"parents": [1, 3]})).await;
        assert_eq!(outcome, expected, "{name}");
        assert_eq!(asked[0], patch(JSON, ""), "{name}");
        let count = |wanted: &String| asked.iter().filter(|one| *one == wanted).count();
        assert_eq!((count(&list), count(&patch(MERGE, "7"))), (lists, merges), "{name}: {asked:?}");
        assert_eq!(asked.len(), 1 + lists + merges, "{name}: {asked:?}");
    }
}

#[tokio::test]
async fn lists_too_long_for_a_comparison_are_written_by_version() {
    let read = json!(["x".repeat(1_500_000)]);
    let api = ScriptedApi { to_json: 200, to_merges: vec![200], object: object("u", &read), asked: Mutex::default() };
    let (outcome, asked) = written(api, json!({"parents": read}), json!({"parents": ["y".repeat(1_500_000)]})).await;
    assert_eq!(outcome, WriteOutcome::Written);
    assert!(asked.len() == 2 && asked[0].starts_with("GET ") && asked[1].contains(MERGE), "{asked:?}");
}

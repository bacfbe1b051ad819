//! Routes and logs of the user's own, by what a request asks for; who sends it is the server's matter.

use std::time::Duration;

use portcullis_e2e::PlainFiles;
use portcullis_harness::client::H2Client;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::{acted_as, bearer, start, start_on};
use crate::fixture::PODS;
use crate::plain::Plain;

/// The line of `envoy/plain/request-info`.
const EXPORT: &str = "requestInfo: {fields: [class, verb], metadata: false}";

const SOON: Duration = Duration::from_secs(20);

/// Logs a line for each request with the filter's attributes, as described in `envoy/README.md`.
fn logging(files: &PlainFiles) {
    let log = r#"
        - name: envoy.access_loggers.stdout
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
            log_format:
              json_format:
                agent: "%REQ(USER-AGENT)%"
                route: "%ROUTE_NAME%"
                verb: "%FILTER_STATE(portcullis.request.verb:PLAIN)%"
                resource: "%FILTER_STATE(portcullis.request.resource:PLAIN)%"
                subresource: "%FILTER_STATE(portcullis.request.subresource:PLAIN)%"
                user: "%FILTER_STATE(portcullis.request.user:PLAIN)%"
                name: "%FILTER_STATE(portcullis.request.name:PLAIN)%"
                metadata: "%DYNAMIC_METADATA(portcullis.request:verb)%"
"#;
    files
        .edit("listener.yaml", |text| text.replace("        access_log:\n", &format!("        access_log:{log}")))
        .unwrap();
    files.edit("routes.yaml", |text| text.replace(EXPORT, "requestInfo: {}")).unwrap();
}

fn line(world: &Plain, agent: &str) -> Value {
    let find = || {
        let text = world.gateway.envoy().process().stdout();
        let mut lines = text.lines().filter(|line| line.starts_with('{'));
        lines.find_map(|line| serde_json::from_str::<Value>(line).ok().filter(|line| line["agent"] == agent))
    };
    wait::until(&format!("a line of {agent}"), SOON, find).unwrap()
}

#[test]
fn routes_of_ones_own_go_by_what_a_request_asks_for() {
    let mut versions = vec![None];
    if !deps::runs_wasm() {
        versions.extend(deps::envoy_compat_versions().into_iter().map(Some));
    }
    for version in versions {
        let world = start_on("request-info", version, logging);
        what_a_client_presents_goes_on(&world);
        what_is_asked_for_decides(&world);
        nobody_writes_it_but_the_filter(&world);
    }
}

fn what_a_client_presents_goes_on(world: &Plain) {
    let authorization = bearer();
    let token = ("authorization", authorization.as_str());
    let (response, record) = world.request(None, "GET", PODS, &[token]);
    assert_eq!(response.status, 200, "{}", response.text());
    let record = record.unwrap();
    assert_eq!((record.version.as_str(), &record.peer_common_name), ("HTTP/1.1", &None));
    assert_eq!((acted_as(&record), record.header("via").as_deref()), ("robot", Some("1.1 portcullis")));

    let (_, record) = world.request(None, "GET", PODS, &[token, ("impersonate-user", "bob")]);
    assert_eq!(acted_as(&record.unwrap()), "bob", "the server allows it");
    let (response, record) = world.request(None, "GET", PODS, &[("authorization", "Bearer unheard-of")]);
    assert_eq!((response.status, record.is_some()), (401, true), "the server's own answer");
    // A user with a certificate only is anonymous behind an Envoy that forwards no user.
    for identity in [None, Some(&world.pki.admin)] {
        let (response, record) = world.request(identity, "GET", PODS, &[]);
        assert_eq!(response.status, 403, "the stub's own answer to nobody");
        let record = record.unwrap();
        assert_eq!((record.header("authorization"), record.peer_common_name), (None, None));
    }
    let (status, record) = world.upgrade(&format!("Upgrade: SPDY/3.1\r\nAuthorization: {authorization}\r\n"));
    assert_eq!((status, acted_as(&record.unwrap())), (101, "robot"));
}

fn what_is_asked_for_decides(world: &Plain) {
    let authorization = bearer();
    let token = ("authorization", authorization.as_str());
    let (response, record) = world.request(None, "DELETE", PODS, &[token, ("user-agent", "deletes")]);
    assert_eq!((response.status, record.is_none()), (403, true));
    assert_eq!(response.json().unwrap()["message"], "collections are not deleted through this gateway");
    let deletes = line(world, "deletes");
    let expected = ["no-deletecollection", "deletecollection", "pods", ""].map(Value::from);
    assert_eq!(["route", "verb", "resource", "subresource"].map(|key| deletes[key].clone()), expected);
    // Only the module writes metadata, and the user was not asked for.
    let metadata = if deps::runs_wasm() { Value::Null } else { json!("deletecollection") };
    assert_eq!((&deletes["metadata"], &deletes["user"]), (&metadata, &Value::Null));

    let client = H2Client::connect(&world.gateway.target()).unwrap();
    let headers = [("authorization", authorization.as_bytes()), ("user-agent", &b"watches"[..])];
    let watch = client.open("GET", &format!("{PODS}?watch=1"), &headers, b"").unwrap();
    assert_eq!(watch.response.status, 200);
    drop(watch);
    let watches = line(world, "watches");
    assert_eq!((&watches["route"], &watches["verb"]), (&json!("watch"), &json!("watch")));

    let path = format!("{PODS}/a%22b%0Ac");
    let (_, record) = world.request(None, "PATCH", &path, &[token, ("user-agent", "odd")]);
    assert!(record.is_some());
    assert_eq!(line(world, "odd")["name"], "a\"b\u{fffd}c");
}

fn nobody_writes_it_but_the_filter(world: &Plain) {
    let authorization = bearer();
    let forged = [
        ("authorization", authorization.as_str()),
        ("portcullis.request.verb", "get"),
        ("wasm.portcullis.request.verb", "get"),
        ("x-portcullis-request-verb", "get"),
        ("x-envoy-dynamic-metadata", "portcullis.request"),
        ("x-http-method-override", "GET"),
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
    ];
    let (response, record) = world.request(None, "DELETE", PODS, &forged);
    assert_eq!((response.status, record.is_none()), (403, true));
    let (response, record) = world.request(None, "GET", PODS, &forged);
    let record = record.unwrap();
    assert_eq!((response.status, acted_as(&record)), (200, "robot"));
    assert_eq!(record.header_names_with_prefix("x-remote-"), [""; 0]);

    // Neither the server's name nor the way back is anybody else's.
    world.stub.clear();
    let other = H2Client::connect(&world.gateway.target()).unwrap().authority("other.example.com");
    assert_eq!(other.get(PODS, &forged[..1]).unwrap().status, 421);
    let (response, record) = world.request(None, "GET", PODS, &[forged[0], ("via", "1.1 portcullis")]);
    assert_eq!((response.status, record.is_none()), (508, true));
}

/// Whatever keeps the filter from writing: no route of one's own is taken for another.
#[test]
fn request_without_the_filters_attributes_has_no_route() {
    let world = start("request-info", |files| {
        files.edit("routes.yaml", |text| text.replace(EXPORT, "")).unwrap();
    });
    let (response, record) = world.request(None, "GET", PODS, &[("authorization", &bearer())]);
    assert_eq!((response.status, record.is_none()), (503, true));
    assert_eq!(response.json().unwrap()["message"], "the gateway made no decision about this request");
}

#[test]
fn refused_request_is_logged_with_its_user_if_asked_for() {
    let world = start("request-info", |files| {
        logging(files);
        let change = |text: String| {
            text.replace("policies: All", "policies: []").replace("requestInfo: {}", "requestInfo: {user: true}")
        };
        files.edit("routes.yaml", change).unwrap();
    });
    let (response, record) = world.request(None, "GET", PODS, &[("user-agent", "nobody")]);
    assert_eq!((response.status, record.is_none()), (403, true), "an empty list is no policy that matches");
    let nobody = line(&world, "nobody");
    assert_eq!((&nobody["verb"], &nobody["user"]), (&json!("list"), &json!("system:anonymous")), "{nobody}");
    let (_, record) = world.request(None, "GET", PODS, &[("authorization", &bearer()), ("user-agent", "somebody")]);
    assert!(record.is_none());
    let somebody = line(&world, "somebody");
    assert_eq!((&somebody["verb"], &somebody["user"]), (&json!("list"), &Value::Null), "nobody knows: {somebody}");
}

/// The sample as it is exports what its routes read, and nothing else.
#[test]
fn fields_of_the_sample_are_those_that_its_routes_read() {
    let world = start("request-info", |files| {
        logging(files);
        files.edit("routes.yaml", |text| text.replace("requestInfo: {}", EXPORT)).unwrap();
    });
    let authorization = bearer();
    let token = ("authorization", authorization.as_str());
    let (response, record) = world.request(None, "DELETE", PODS, &[token, ("user-agent", "deletes")]);
    assert_eq!((response.status, record.is_none()), (403, true));
    let deletes = line(&world, "deletes");
    let seen = ["route", "verb", "resource", "metadata"].map(|key| deletes[key].clone());
    assert_eq!(seen, [json!("no-deletecollection"), json!("deletecollection"), Value::Null, Value::Null]);
    let (response, record) = world.request(None, "GET", PODS, &[token]);
    assert_eq!((response.status, record.is_some()), (200, true));
}

mod awaited;
mod documents;
mod sources;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use portcullis_api::{Discovered, DiscoveredServer, MAX_SERVERS, Settings, SlicePort, discovered_of};
use serde_json::{Value, json};

use super::answers::{Answer, Answers, ESTABLISHED};
use super::documents::DiscoveredDocuments;
use super::saved;
use super::slices::{SliceServers, is_of_service, servers_of};
use super::want::AnswerKey;

fn slice(name: &str, family: &str, ports: &Value, endpoints: &Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": name},
        "addressType": family, "ports": ports, "endpoints": endpoints,
    }))
    .unwrap()
}

/// The servers as `address zone`, and how many findings there are.
fn shown(slices: &[EndpointSlice], port: &SlicePort) -> (Vec<String>, usize) {
    let SliceServers { servers, unused } = servers_of(slices, port);
    let one =
        |server: &DiscoveredServer| format!("{}:{} {}", server.ip, server.port, server.zone).trim_end().to_owned();
    (servers.iter().map(one).collect(), unused.len())
}

fn endpoint(address: &str, ready: Value, serving: Value, terminating: Value) -> Value {
    json!({"addresses": [address], "conditions": {"ready": ready, "serving": serving, "terminating": terminating}})
}

#[test]
fn conditions_decide_which_endpoints_are_servers() {
    let null = Value::Null;
    let of = |endpoints: Value| {
        let ports = json!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
        shown(&[slice("a", "IPv4", &ports, &endpoints)], &SlicePort::Only)
    };
    let ready = || endpoint("10.0.0.1", json!(true), json!(true), json!(false));
    let unknown = || endpoint("10.0.0.2", null.clone(), null.clone(), null.clone());
    let starting = || endpoint("10.0.0.3", json!(false), json!(false), json!(false));
    let ending = || endpoint("10.0.0.4", json!(false), json!(true), json!(true));
    let gone = || endpoint("10.0.0.5", json!(false), json!(false), json!(true));
    let unready_and_serving = || endpoint("10.0.0.6", json!(false), json!(true), json!(false));
    for (endpoints, servers) in [
        (json!([]), vec![]),
        (json!([ready(), unknown()]), vec!["10.0.0.1:6443", "10.0.0.2:6443"]),
        (json!([starting(), gone(), unready_and_serving()]), vec![]),
        (json!([ready(), ending()]), vec!["10.0.0.1:6443"]),
        (json!([ending(), gone(), starting()]), vec!["10.0.0.4:6443"]),
        (json!([ready(), ready()]), vec!["10.0.0.1:6443"]),
        (json!([{"addresses": ["10.0.0.7", "10.0.0.8"]}]), vec!["10.0.0.7:6443"]),
    ] {
        assert_eq!(of(endpoints.clone()), (servers.into_iter().map(str::to_owned).collect(), 0), "{endpoints}");
    }
}

#[test]
fn ports_are_chosen_by_number_or_name() {
    let two = json!([{"name": "https", "port": 6443}, {"name": "metrics", "port": 9090}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
    let one = json!([{"port": 8443, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
    let (number, name) = (SlicePort::Number, |text: &str| SlicePort::Name(text.to_owned()));
    for (ports, wanted, found) in [
        (&one, SlicePort::Only, Some(8443)),
        (&two, SlicePort::Only, None),
        (&two, number(9090), Some(9090)),
        (&two, number(443), None),
        (&two, number(53), None),
        (&two, name("https"), Some(6443)),
        (&two, name("dns"), None),
        (&one, name(""), Some(8443)),
        (&json!([]), SlicePort::Only, None),
        (&json!([{"name": "https", "port": 0}]), name("https"), None),
        (&json!([{"name": "https", "port": 70_000}]), name("https"), None),
        (&json!([{"name": "https", "port": null}]), name("https"), None),
    ] {
        let found = found.map(|port: u16| format!("10.0.0.1:{port}"));
        let findings = usize::from(found.is_none());
        let slices = [slice("a", "IPv4", ports, &json!([{"addresses": ["10.0.0.1"]}]))];
        assert_eq!(shown(&slices, &wanted), (found.into_iter().collect(), findings), "{wanted:?} of {ports}");
    }
}

#[test]
fn families_and_zones_of_several_slices_come_together() {
    let ports = json!([{"name": "https", "port": 6443}]);
    let slices = [
        slice(
            "six",
            "IPv6",
            &ports,
            &json!([{"addresses": ["2001:db8::1"], "zone": "b"}, {"addresses": ["10.0.0.9"]}]),
        ),
        slice("four", "IPv4", &ports, &json!([{"addresses": ["10.0.0.2"], "zone": "a"}, {"addresses": ["10.0.0.1"]}])),
        slice("again", "IPv4", &ports, &json!([{"addresses": ["10.0.0.2"], "zone": "a"}])),
        slice("names", "FQDN", &ports, &json!([{"addresses": ["a.test"]}])),
        slice("empty", "IPv4", &json!([]), &json!([])),
    ];
    let wanted = ["10.0.0.1:6443", "10.0.0.2:6443 a", "2001:db8::1:6443 b"].map(str::to_owned).to_vec();
    assert_eq!(shown(&slices, &SlicePort::Only), (wanted, 2), "an address of the wrong family, and names");
}

fn servers(addresses: &[&str]) -> SliceServers {
    let server = |ip: &&str| DiscoveredServer { ip: ip.parse().unwrap(), port: 6443, zone: String::new() };
    SliceServers { servers: addresses.iter().map(server).collect(), unused: Vec::new() }
}

fn key(source: &str) -> AnswerKey {
    AnswerKey { name: "a.test".to_owned(), uid: "u".to_owned(), source: source.to_owned(), place: String::new() }
}

#[test]
fn answer_without_a_usable_server_keeps_the_last_one() {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let now = |seconds| (at(seconds), Instant::now());
    let mut answer = Answer::none(key("s"), at(0));
    answer.take(servers(&[]), false, now(1));
    assert_eq!((answer.servers.len(), answer.empty_since, answer.changed), (0, Some(at(1)), None));
    answer.take(servers(&["10.0.0.1"]), false, now(2));
    assert_eq!((answer.servers.len(), answer.empty_since, answer.changed), (1, None, Some(at(2))));
    for (found, time) in [(servers(&[]), 3), (servers(&["127.0.0.1", "169.254.169.254"]), 4)] {
        answer.take(found, false, now(time));
        assert_eq!(answer.servers, servers(&["10.0.0.1"]).servers);
        assert_eq!((answer.empty_since, answer.changed), (Some(at(3)), Some(at(2))));
    }
    assert_eq!(answer.unused.len(), 2);
    answer.fail("away".to_owned(), at(5));
    answer.fail("away still".to_owned(), at(6));
    assert_eq!(answer.failed, Some((at(5), "away still".to_owned())));
    assert_eq!(answer.servers.len(), 1);
    answer.take(servers(&["127.0.0.1"]), true, now(7));
    assert_eq!((answer.failed, answer.empty_since), (None, None));
    assert_eq!(
        answer.servers,
        servers(&["127.0.0.1", "10.0.0.1"]).servers,
        "the last one goes when another is established"
    );
}

#[test]
fn server_stays_until_another_one_is_established() {
    let start = Instant::now() + 2 * ESTABLISHED;
    let at = |seconds| (SystemTime::UNIX_EPOCH, start + Duration::from_secs(seconds));
    let mut answers =
        Answers { by_name: [("a".to_owned(), Answer::none(key("s"), SystemTime::now()))].into(), ..Answers::default() };
    let mut step = |found: &[&str], seconds| {
        let answer = answers.by_name.get_mut("a").unwrap();
        answer.take(servers(found), false, at(seconds));
        let mut shown: Vec<_> = answer.servers.iter().map(|server| server.ip.to_string()).collect();
        shown.sort();
        (shown.join(" "), answers.next_settlement().map(|next| (next - start).as_secs()))
    };
    let shown = |text: &str, next| (text.to_owned(), next);
    assert_eq!(step(&["10.0.0.1", "10.0.0.2"], 0), shown("10.0.0.1 10.0.0.2", None));
    assert_eq!(step(&["10.0.0.1"], 1), shown("10.0.0.1", None), "the other one was there before");
    assert_eq!(step(&["10.0.0.3"], 2), shown("10.0.0.1 10.0.0.3", Some(7)), "nothing has checked the new one yet");
    assert_eq!(step(&["10.0.0.3", "10.0.0.4"], 3), shown("10.0.0.1 10.0.0.3 10.0.0.4", Some(7)));
    assert_eq!(step(&[], 4), shown("10.0.0.1 10.0.0.3 10.0.0.4", Some(7)), "an empty answer changes nothing");
    let answer = answers.by_name.get_mut("a").unwrap();
    answer.settle(at(7));
    assert_eq!(answer.servers, servers(&["10.0.0.3", "10.0.0.4"]).servers);
    assert_eq!(answers.next_settlement(), None);
}

/// Requests go to none that is disabled, so that it takes the place of no other.
#[test]
fn disabled_server_is_no_reason_to_let_another_go() {
    let start = Instant::now() + 2 * ESTABLISHED;
    let at = |seconds| (SystemTime::UNIX_EPOCH, start + Duration::from_secs(seconds));
    let mut answer = Answer::none(key("s"), SystemTime::now());
    answer.disabled = ["10.0.0.1:6443".parse().unwrap()].into();
    answer.take(servers(&["10.0.0.1", "10.0.0.2"]), false, at(0));
    answer.take(servers(&["10.0.0.1", "10.0.0.3"]), false, at(1));
    assert_eq!(answer.servers, servers(&["10.0.0.1", "10.0.0.3", "10.0.0.2"]).servers);
    answer.settle(at(6));
    assert_eq!(answer.servers, servers(&["10.0.0.1", "10.0.0.3"]).servers);
    answer.take(servers(&["10.0.0.1"]), false, at(7));
    assert_eq!(answer.servers, servers(&["10.0.0.1", "10.0.0.3"]).servers, "alone it is an empty answer");
    assert!(answer.empty_since.is_some());
}

/// A hostile upstream names other servers in each answer.
#[test]
fn stream_of_new_addresses_is_kept_bounded_and_not_for_long() {
    let start = Instant::now() + 2 * ESTABLISHED;
    let mut answer = Answer::none(key("s"), SystemTime::now());
    let named = |round: u32| {
        let server = |number: u32| DiscoveredServer {
            ip: std::net::Ipv4Addr::from(0x0a00_0000 + round * 256 + number).into(),
            port: 6443,
            zone: String::new(),
        };
        SliceServers { servers: (0..200).map(server).collect(), unused: Vec::new() }
    };
    for round in 0..100 {
        let now = start + Duration::from_millis(100) * round;
        answer.take(named(round), false, (SystemTime::UNIX_EPOCH, now));
        assert!(answer.servers.len() <= MAX_SERVERS, "{} in round {round}", answer.servers.len());
        assert_eq!(answer.servers[..200], named(round).servers, "the named ones come first");
    }
    assert_eq!(answer.servers.len(), 200, "five seconds after the first change only those that are named");
    let zone = |length: usize| json!([{"addresses": ["10.0.0.1"], "zone": "z".repeat(length)}]);
    let of = |length| servers_of([&slice("a", "IPv4", &json!([{"port": 6443}]), &zone(length))], &SlicePort::Only);
    assert_eq!((of(63).servers[0].zone.len(), of(64).servers[0].zone.len()), (63, 0));
}

#[test]
fn slices_of_a_former_service_are_not_those_of_its_successor() {
    let owned = |owners: Value| {
        let mut slice = slice("a", "IPv4", &json!([{"port": 6443}]), &json!([]));
        slice.metadata.owner_references = serde_json::from_value(owners).unwrap();
        slice
    };
    let by = |kind: &str, uid: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "web", "uid": uid}]);
    for (owners, is_its) in [
        (Value::Null, true),
        (by("Service", "new"), true),
        (by("Service", "old"), false),
        // One that is mirrored from Endpoints has these as its owner.
        (by("Endpoints", "other"), true),
    ] {
        assert_eq!(is_of_service(&owned(owners.clone()), Some("new")), is_its, "{owners}");
        assert!(is_of_service(&owned(owners), None), "of an object nothing is known");
    }
}

/// Nothing verifies the servers of a Service behind a route, and addresses of pods are given to others.
#[test]
fn list_without_endpoints_empties_a_service_behind_a_route() {
    let now = (SystemTime::UNIX_EPOCH, Instant::now());
    let mut answer = Answer::none(AnswerKey { name: "team/web:443".to_owned(), ..key("s") }, SystemTime::now());
    answer.take(servers(&["10.0.0.1", "169.254.169.254", "127.0.0.1"]), false, now);
    assert_eq!(answer.servers, servers(&["10.0.0.1"]).servers, "one that may not be a server is none");
    answer.take(servers(&["10.0.0.2"]), false, now);
    assert_eq!(answer.servers, servers(&["10.0.0.2"]).servers, "one that is gone is not used any more");
    answer.fail("away".to_owned(), SystemTime::now());
    assert_eq!(answer.servers.len(), 1, "a list that fails says nothing");
    answer.take(servers(&[]), false, now);
    answer.settle(now);
    assert_eq!((answer.servers.len(), answer.empty_since.is_some()), (0, true));
}

#[tokio::test]
async fn answers_are_saved_and_only_used_for_their_source() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    assert!(saved::load(&state).is_empty());
    let key = AnswerKey { place: "p".to_owned(), ..key("s") };
    let mut answer = Answer::none(key, SystemTime::now());
    answer.written = ["https://10.0.0.1".to_owned()].into();
    answer.take(
        servers(&["10.0.0.1", "2001:db8::1"]),
        false,
        (SystemTime::UNIX_EPOCH + Duration::from_secs(7), Instant::now()),
    );
    saved::save(state.clone(), [("a.test".to_owned(), answer.clone())].into()).await;
    let loaded = saved::load(&state);
    let found = &loaded["a.test"];
    assert_eq!((&found.servers, &found.key, found.changed), (&answer.servers, &answer.key, answer.changed));
    assert_eq!(found.written, answer.written);
    assert!(found.failed.is_some(), "it is not current");
    std::fs::write(state.join("discovered"), "{}").unwrap();
    assert!(saved::load(&state).is_empty());
}

fn settings() -> Settings {
    let document = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "a"}, "spec": {},
    });
    portcullis_translate::choose_settings(&[document], None).settings.unwrap()
}

fn document(discovery: &Value) -> Arc<Value> {
    let ca = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap().cert.pem();
    let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, ca);
    Arc::new(json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
        "metadata": {"name": "a.test", "uid": "u"},
        "spec": {
            "servers": [{"endpoint": "https://10.0.0.9:6443"}], "clientConfig": {"caData": ca, "bearerToken": "YQ=="},
            "dispatchPolicies": [{"rules": [{"verbs": ["*"]}]}], "portcullis": {"discovery": discovery},
        },
        // No source can bring servers in this way.
        "status": {"names": ["a.test"], "discovered": {"servers": [{"address": "10.6.6.6:6443", "zone": ""}]}},
    }))
}

#[test]
fn documents_get_the_answer_of_their_own_source_alone() {
    let service = json!({"service": {"namespace": "ns", "name": "tenant", "port": 6443}});
    let mut discovered = DiscoveredDocuments::default();
    let mut put = |answers: Answers, discovery: &Value| {
        discovered.answer(Arc::new(answers));
        let mut document = document(discovery);
        let want = discovered.put(&mut document, &settings());
        assert_eq!(document["status"]["names"], json!(["a.test"]));
        (want, discovered_of(document.get("status")))
    };
    let empty = |has_kubernetes| Answers { has_kubernetes, ..Answers::default() };
    assert_eq!(put(empty(true), &Value::Null), (None, None), "what a document brings is not read");
    let (want, found) = put(empty(true), &service);
    let want = want.unwrap();
    let none = || Some(Discovered::Servers(Vec::new()));
    assert_eq!(found, none());
    assert_eq!(put(empty(false), &service).1, Some(Discovered::Unsupported));
    assert_eq!(put(empty(false), &json!({"kubernetesService": true})).1, none());
    let answered = |source: &str| {
        let mut answer = Answer::none(key(source), SystemTime::now());
        answer.take(servers(&["10.0.0.1"]), false, (SystemTime::now(), Instant::now()));
        Answers { by_name: [("a.test".to_owned(), answer)].into(), has_kubernetes: true }
    };
    let one = Discovered::Servers(servers(&["10.0.0.1"]).servers);
    assert_eq!(put(answered(&want.key.source), &service).1, Some(one));
    assert_eq!(put(answered("another source"), &service).1, none());
    assert!(answered("s").of(None).is_none());
}

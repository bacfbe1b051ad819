use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::H2Client;
use portcullis_harness::deps;
use portcullis_stub_apiserver::Record;
use serde_json::Value;

use super::fixture::{FRONT, IngressFixture, bearer};
use crate::fixture::PODS;

/// Protocol and certificate of a request's connection to the server.
fn pool(record: &Record) -> (&str, Option<&str>) {
    (record.version.as_str(), record.peer_common_name.as_deref())
}

#[test]
fn certificates_tokens_and_nobody_take_ways_of_their_own() {
    for version in deps::envoy_versions() {
        everybody_takes_a_way_of_their_own(&IngressFixture::on("gardener-ways", Some(version)));
    }
}

fn everybody_takes_a_way_of_their_own(fixture: &IngressFixture) {
    let side = &fixture.sides[0];
    for (way, target) in fixture.ways() {
        let (response, record) = fixture.send(&target.clone().identity(&side.alice), PODS, &[]);
        assert_eq!(response.status, 200, "{way}: {}", response.text());
        let record = record.unwrap();
        assert_eq!(pool(&record), ("HTTP/2.0", Some(FRONT)), "{way}");
        assert_eq!(record.header_all("x-remote-user"), ["alice"], "{way}");
        assert_eq!(record.header_all("x-remote-group"), ["dev"], "{way}");
        assert!(record.header("x-remote-extra-authentication.kubernetes.io%2fcredential-id").is_some(), "{way}");
        assert!(record.header("x-forwarded-client-cert").is_none(), "{way}");
        assert_eq!(record.effective.unwrap().username, "alice", "{way}");

        let token = bearer(&side.token);
        let (response, record) = fixture.send(&target, PODS, &[("authorization", &token)]);
        assert_eq!(response.status, 200, "{way}: {}", response.text());
        let record = record.unwrap();
        assert_eq!(pool(&record), ("HTTP/2.0", None), "{way}");
        assert_eq!(record.header_all("authorization"), [token], "{way}");
        assert_eq!(record.header_names_with_prefix("x-remote-"), [""; 0], "{way}");

        let (response, record) = fixture.send(&target, PODS, &[]);
        assert_eq!(response.status, 403, "{way}: the server's own answer to nobody");
        let record = record.unwrap();
        assert_eq!(pool(&record), ("HTTP/1.1", None), "{way}");
        assert_eq!(record.header_names_with_prefix("x-remote-"), [""; 0], "{way}");

        let (response, record) = fixture.send(&target, PODS, &[("authorization", "Bearer unheard-of")]);
        assert_eq!((response.status, record.is_none()), (401, true), "{way}: rejected before it shares a connection");
    }
}

#[test]
fn credential_for_kube_apiserver_goes_on_unchanged() {
    let fixture = IngressFixture::start("gardener-as");
    let target = fixture.ingress.target(fixture.shoot(0)).identity(&fixture.sides[0].alice);
    let (_, record) = fixture.send(&target, PODS, &[("impersonate-user", "dave"), ("impersonate-group", "ops")]);
    let record = record.unwrap();
    assert_eq!(record.header_all("impersonate-user"), ["dave"]);
    assert_eq!(record.header_all("impersonate-group"), ["ops"]);
    assert_eq!(record.authenticated.unwrap().username, "alice", "who asks is beyond doubt");
}

#[test]
fn credentials_of_another_shoot_are_worth_nothing() {
    let fixture = IngressFixture::start("gardener-cross");
    let [one, two] = &fixture.sides;
    for (way, target) in fixture.ways() {
        let stranger = target.clone().identity(&two.alice);
        // Signed by another authority, the handshake ends: as TLS 1.3 has it, the first read shows that.
        let answered = H2Client::connect(&stranger).and_then(|client| client.get(PODS, &[]));
        assert!(answered.is_err(), "{way}: {answered:?}");
        let (response, _) = fixture.send(&target, PODS, &[("authorization", &bearer(&two.token))]);
        assert_eq!(response.status, 401, "{way}");
        assert!(one.seen().is_none() && two.seen().is_none(), "{way}");
    }
}

#[test]
fn certificate_refused_in_the_handshake_is_no_user() {
    let fixture = IngressFixture::start("gardener-handshake");
    let masters = CertSpec::client("eve", ["system:masters"]);
    let self_signed = portcullis_harness::certs::self_signed(&masters).unwrap();
    let other = Ca::new("clients").unwrap().issue(&masters).unwrap();
    let expired = fixture.sides[0].client_ca.issue(&masters.expired()).unwrap();
    for (way, target) in fixture.ways() {
        for (case, identity) in [("self-signed", &self_signed), ("another CA", &other), ("expired", &expired)] {
            let target = target.clone().identity(identity);
            let answered = H2Client::connect(&target).and_then(|client| client.get(PODS, &[]));
            assert!(answered.is_err(), "{way}, {case}: {answered:?}");
        }
    }
    assert!(fixture.sides[0].seen().is_none());
}

/// As if the EnvoyFilter had found no place for it.
#[test]
fn listener_without_the_filter_lets_no_request_through() {
    let fixture = IngressFixture::changed("gardener-absent", |options| take_out_filter(&mut options.bootstrap));
    for (way, target) in fixture.ways() {
        for target in [target.clone(), target.identity(&fixture.sides[0].alice)] {
            let (response, record) = fixture.send(&target, PODS, &[("x-remote-user", "admin")]);
            assert_eq!((response.status, record.is_none()), (503, true), "{way}");
            assert_eq!(response.json().unwrap()["message"], "the gateway made no decision about this request", "{way}");
        }
    }
}

fn take_out_filter(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Array(filters)) = fields.get_mut("http_filters") {
                filters.retain(|filter| filter["name"] != "portcullis");
            }
            // It would name a filter that is not there.
            fields.remove("typed_per_filter_config");
            fields.values_mut().for_each(take_out_filter);
        }
        Value::Array(items) => items.iter_mut().for_each(take_out_filter),
        _ => {}
    }
}

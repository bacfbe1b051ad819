//! `auditAttribution`: the upstream's audit log shows the origin of a request, and no client can write it.

use std::net::IpAddr;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::H2Client;
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};
use crate::protected::{Mode, Site};

#[test]
fn upstream_is_told_address_and_request_by_the_gateway_alone() {
    let fixture = StubFixture::without_cluster("attribution", &GatewayOptions::default());
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", json!({"auditAttribution": true}))).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let ask = |headers: &[(&str, &str)]| H2Client::connect(&target).unwrap().get(PODS, headers).unwrap();
    let forged = [
        ("x-forwarded-for", "6.6.6.6"),
        ("x-real-ip", "6.6.6.6"),
        ("forwarded", "for=6.6.6.6"),
        ("x-request-id", "forged"),
    ];
    assert_eq!(ask(&forged).status, 200);
    let record = fixture.client_records().pop().unwrap();
    let told = |key: &str| record.header(&format!("impersonate-extra-portcullis.dev%2f{key}"));
    // For a client on loopback Envoy sends its own host's address.
    let address = told("client-address").unwrap();
    assert!(address.parse::<IpAddr>().is_ok() && address != "6.6.6.6", "{address}");
    assert_eq!(record.header_all("x-forwarded-for"), [address], "the client's own entries are replaced");
    assert!(record.header("x-real-ip").is_none() && record.header("forwarded").is_none());
    let id = told("request-id").unwrap();
    assert!(!id.is_empty() && id != "forged" && record.header("x-request-id").is_none(), "{id}");
    assert_eq!(told("original-user"), None, "nobody acts as somebody else");
    fixture.stub.clear();
    for name in ["impersonate-extra-portcullis.dev%2fclient-address", "impersonate-extra-%70ortcullis.dev%2Fx"] {
        assert_eq!(ask(&[("impersonate-user", "bob"), (name, "1.2.3.4")]).status, 403, "{name}");
    }
    assert!(fixture.client_records().is_empty());
}

#[test]
fn attribution_of_a_client_reaches_no_server_as_front_proxy() {
    let site = Site::start("attribution-front-proxy", Mode::RequestHeader);
    let client = H2Client::connect(&site.target().identity(&site.fixture.pki.alice)).unwrap();
    let ask = |headers: &[(&str, &str)]| client.get(PODS, headers).unwrap().status;
    for name in ["impersonate-extra-portcullis.dev%2fclient-address", "impersonate-extra-%70ortcullis.dev%2Fx"] {
        assert_eq!(ask(&[("impersonate-user", "bob"), (name, "1.2.3.4")]), 403, "{name}");
        assert_eq!(ask(&[(name, "1.2.3.4")]), 403, "{name}");
    }
    let records = || site.server.records_for(PODS).len();
    assert_eq!(records(), 0);
    ask(&[]);
    assert_eq!(records(), 1);
}

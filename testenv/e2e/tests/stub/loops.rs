//! A server that is the gateway itself: it serves no request, and nothing goes round.

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::client::H2Client;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

#[test]
fn server_that_is_the_gateway_itself_never_becomes_healthy() {
    let fixture = StubFixture::without_cluster("loops", &GatewayOptions::default());
    let gateway = &fixture.gateway;
    let itself = Manifest::new(NAME, [gateway.address()])
        .upstream(&fixture.pki.gateway, gateway.serving_ca(), NAME)
        .serving(&gateway.serving_identity(NAME).unwrap(), &fixture.pki.client_ca);
    gateway.apply(&itself).unwrap();
    let target = gateway.target(NAME);
    let asks = |identity: bool, headers: &[(&str, &str)]| {
        let target = if identity { target.clone().identity(&fixture.pki.alice) } else { target.clone() };
        H2Client::connect(&target).unwrap().get(PODS, headers).unwrap()
    };
    let bearer = format!("Bearer {ROBOT}");
    for response in [asks(true, &[]), asks(false, &[]), asks(false, &[("authorization", &bearer)])] {
        assert_eq!(response.status, 503);
        assert_eq!(response.json().unwrap()["kind"], "Status");
    }
    // The answer to a health check of its own, a review or an anonymous request.
    let looped = asks(true, &[("via", "1.1 elsewhere, 1.1 e2e")]);
    assert_eq!(looped.status, 508, "{:?}", looped.json());
}

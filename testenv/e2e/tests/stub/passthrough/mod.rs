//! Clusters whose connections are passed on: TLS is between client and server, and the gateway reads none of it.

mod connections;
mod servers;
mod switch;

use portcullis_e2e::Manifest;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::TlsTarget;
use portcullis_stub_apiserver::StubServer;
use serde_json::json;

use crate::fixture::{NAME, StubFixture};

/// A server whose certificate has the name that clients ask for.
fn stub(fixture: &StubFixture, name: &str) -> StubServer {
    let identity = fixture.pki.server_ca.issue(&CertSpec::server(name, [NAME, "kubernetes"])).unwrap();
    let mut options = fixture.pki.stub_options(name);
    (options.tls_cert, options.tls_key) = (identity.pem(), identity.key_pem());
    StubServer::start(options).unwrap()
}

/// As short as it can be: neither a credential nor a policy.
fn passed_on<'a>(servers: impl IntoIterator<Item = &'a StubServer>) -> Manifest {
    let health = json!({"interval": "1s", "timeout": "1s"});
    Manifest::new(NAME, servers.into_iter().map(StubServer::address))
        .set("/spec/clientConfig", json!({}))
        .set("/spec/secureServing", json!({}))
        .set("/spec/dispatchPolicies", json!([]))
        .set("/spec/portcullis", json!({"transport": "TLSPassthrough", "healthCheck": health}))
}

/// The cluster as alice finds it: she trusts the server's own authority.
fn target(fixture: &StubFixture) -> TlsTarget {
    TlsTarget::new(fixture.gateway.address()).sni(NAME).trust(&fixture.pki.server_ca).identity(&fixture.pki.alice)
}

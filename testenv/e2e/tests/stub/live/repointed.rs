//! Servers and the credential that they know are changed in one edit.

use std::net::SocketAddr;

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{ClientPool, LoadProfile, Protocol};
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::{SharedStore, StubServer};

use super::failures::more;
use super::site::{PATIENCE, servers};
use crate::fixture::{NAME, PODS, Pki, ROBOT};

/// One of two groups of servers, which know the gateway by other certificates: of one subject, from authorities of one name.
struct ServerGroup {
    stubs: Vec<StubServer>,
    gateway: Identity,
    server_ca: Ca,
}

impl ServerGroup {
    fn start(pki: &Pki, name: &str, server_ca: Ca, store: &SharedStore) -> Self {
        let authority = Ca::new("kubernetes").unwrap();
        let stub = |number: usize| {
            let identity = server_ca.issue(&CertSpec::server(name, ["kubernetes"])).unwrap();
            let mut options = pki.stub_options(&format!("{name}-{number}")).client_ca(authority.pem());
            (options.tls_cert, options.tls_key) = (identity.pem(), identity.key_pem());
            options.store = store.clone();
            StubServer::start(options).unwrap()
        };
        let stubs = (0..2).map(stub).collect();
        let gateway = authority.issue(&CertSpec::client("portcullis", [""; 0])).unwrap();
        ServerGroup { stubs, gateway, server_ca }
    }

    fn manifest(&self, before: &Manifest) -> Manifest {
        let addresses: Vec<SocketAddr> = self.stubs.iter().map(StubServer::address).collect();
        let manifest = before.clone().upstream(&self.gateway, &self.server_ca, "kubernetes");
        manifest.set("/spec/servers", servers(&addresses, &[]))
    }
}

/// Points the gateway at other servers and gives it their credential, in one edit and back, under load.
fn repointed(test: &str, has_other_server_ca: bool) {
    let run = RunDir::new(test).unwrap();
    let (pki, store) = (Pki::new(), SharedStore::default());
    let shared = Ca::new("servers").unwrap();
    let other = if has_other_server_ca { Ca::new("servers").unwrap() } else { shared.clone() };
    let groups = [("one", shared), ("other", other)].map(|(name, ca)| ServerGroup::start(&pki, name, ca, &store));
    let gateway = Gateway::start(&run, &GatewayOptions::default()).unwrap();
    let base = Manifest::new(NAME, []).serving(&gateway.serving_identity(NAME).unwrap(), &pki.client_ca);
    gateway.apply(&groups[0].manifest(&base)).unwrap();
    let target = gateway.target(NAME).timeout(PATIENCE);
    let alice = target.clone().identity(&pki.alice);
    let lanes = [Protocol::Http2, Protocol::Http1].map(|protocol| {
        [
            LoadProfile::new(format!("certificate, {protocol:?}"), &alice, protocol),
            LoadProfile::new(format!("token, {protocol:?}"), &target, protocol).token(ROBOT),
        ]
    });
    let crowd = ClientPool::new(2).unwrap();
    let load = crowd.steady(lanes.as_flattened(), &[PODS], 100.0).unwrap();
    let mut total = more(&load, 50);
    for number in 1..=6 {
        gateway.apply(&groups[number % 2].manifest(&base)).unwrap();
        total = total.and(more(&load, 50));
    }
    let total = total.and(load.stop().unwrap());
    eprintln!("6 edits: {total}");
    assert_eq!(total.failed, 0, "{total}");
    for group in &groups {
        assert!(group.stubs.iter().any(|stub| stub.counters().requests > 0));
    }
}

#[test]
fn servers_and_credential_repointed_together_fail_nothing() {
    repointed("repointed", false);
}

#[test]
fn servers_ca_and_credential_repointed_together_fail_nothing() {
    repointed("repointed-ca", true);
}

//! A stub with its authorities, for the tests.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;

use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_stub_apiserver::{StubOptions, StubServer, TokenEntry};

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Fixture {
    pub(crate) server_ca: Ca,
    pub(crate) client_ca: Ca,
    pub(crate) proxy_ca: Ca,
    pub(crate) stub: StubServer,
}

impl Fixture {
    /// A stub that knows the tokens `good` (user tess in dev) and `boss` (user root in system:masters).
    pub(crate) fn start(change: impl FnOnce(StubOptions) -> StubOptions) -> Self {
        let server_ca = Ca::new("server authority").unwrap();
        let client_ca = Ca::new("client authority").unwrap();
        let proxy_ca = Ca::new("proxy authority").unwrap();
        let identity = server_ca.issue(&CertSpec::server("stub", ["stub.test"])).unwrap();
        let entry = |user: &str, group: &str| TokenEntry {
            user: user.to_owned(),
            groups: vec![group.to_owned()],
            ..TokenEntry::default()
        };
        let options = StubOptions::new(identity.pem(), identity.key_pem())
            .client_ca(client_ca.pem())
            .token("good", entry("tess", "dev"))
            .token("boss", entry("root", "system:masters"));
        let stub = StubServer::start(change(options)).unwrap();
        Self { server_ca, client_ca, proxy_ca, stub }
    }

    pub(crate) fn target(&self) -> TlsTarget {
        TlsTarget::new(self.stub.address()).trust(&self.server_ca).timeout(DEADLINE)
    }

    pub(crate) fn h2(&self, identity: Option<&Identity>) -> H2Client {
        let target = self.target();
        H2Client::connect(&identity.map_or(target.clone(), |identity| target.identity(identity))).unwrap()
    }

    pub(crate) fn user(&self, name: &str, groups: &[&str]) -> Identity {
        self.client_ca.issue(&CertSpec::client(name, groups)).unwrap()
    }

    pub(crate) fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::new(self.stub.url()).ca(&self.server_ca)
    }
}

use std::net::SocketAddr;
use std::time::Duration;

use portcullis_e2e::{AgentSiteSetup, Manifest};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::StubServer;

use crate::fixture::{NAME, Pki};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The server behind the gateways, and the CA that their clients trust.
pub(crate) struct AgentFixture {
    pub(crate) pki: Pki,
    pub(crate) serving_ca: Ca,
    pub(crate) stub: StubServer,
    // Removed last.
    pub(crate) run: RunDir,
}

impl AgentFixture {
    pub(crate) fn new(test: &str) -> Self {
        let run = RunDir::new(test).unwrap();
        let pki = Pki::new();
        AgentFixture { stub: pki.stub("stub-0"), serving_ca: Ca::new("gateway serving authority").unwrap(), pki, run }
    }

    /// A gateway of this node id with one cluster.
    pub(crate) fn site<'a>(&'a self, name: &'a str) -> AgentSiteSetup<'a> {
        self.site_of(name, &self.manifest())
    }

    /// As [`AgentFixture::site`], with another cluster.
    pub(crate) fn site_of<'a>(&'a self, name: &'a str, manifest: &Manifest) -> AgentSiteSetup<'a> {
        AgentSiteSetup::new(&self.run, name, &self.serving_ca).cluster("cluster.yaml", manifest)
    }

    pub(crate) fn manifest(&self) -> Manifest {
        let serving = self.serving_ca.issue(&CertSpec::server(NAME, [NAME])).unwrap();
        Manifest::new(NAME, [self.stub.address()])
            .upstream(&self.pki.gateway, &self.pki.server_ca, "kubernetes")
            .serving(&serving, &self.pki.client_ca)
    }

    /// The cluster behind the gateway at `address`, for alice.
    pub(crate) fn target(&self, address: SocketAddr) -> TlsTarget {
        TlsTarget::new(address).sni(NAME).trust(&self.serving_ca).identity(&self.pki.alice)
    }
}

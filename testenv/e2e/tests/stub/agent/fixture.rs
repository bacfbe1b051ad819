use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use portcullis_e2e::{Manifest, default_certificate, settings};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{ports, write_private};
use portcullis_stub_apiserver::StubServer;

use crate::fixture::{NAME, Pki};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The server behind the gateways, and the CA that their clients trust.
pub(crate) struct Grounds {
    pub(crate) pki: Pki,
    pub(crate) serving_ca: Ca,
    pub(crate) stub: StubServer,
    // Removed last.
    pub(crate) run: RunDir,
}

impl Grounds {
    pub(crate) fn new(test: &str) -> Self {
        let run = RunDir::new(test).unwrap();
        let pki = Pki::new();
        Grounds { stub: pki.stub("stub-0"), serving_ca: Ca::new("gateway serving authority").unwrap(), pki, run }
    }

    /// One cluster, for a gateway that listens at `address`.
    pub(crate) fn manifests(&self, name: &str, address: SocketAddr) -> PathBuf {
        let directory = self.run.make_dir(name).unwrap();
        let default = default_certificate(&self.serving_ca).unwrap();
        write_private(&directory.join("settings.yaml"), settings("e2e", address, &default).as_bytes()).unwrap();
        write_private(&directory.join("cluster.yaml"), self.manifest().to_text().as_bytes()).unwrap();
        directory
    }

    pub(crate) fn manifest(&self) -> Manifest {
        let serving = self.serving_ca.issue(&CertSpec::server(NAME, [NAME])).unwrap();
        Manifest::new(NAME, [self.stub.address()])
            .upstream(&self.pki.gateway, &self.pki.server_ca, "kubernetes")
            .serving(&serving, &self.pki.client_ca)
    }

    /// A control plane over a directory of manifests.
    pub(crate) fn plane(&self, name: &str, manifests: &std::path::Path) -> ControlPlane {
        ControlPlane::start(&self.run.make_dir(name).unwrap(), manifests).unwrap()
    }

    /// The cluster behind the gateway at `address`, for alice.
    pub(crate) fn target(&self, address: SocketAddr) -> TlsTarget {
        TlsTarget::new(address).sni(NAME).trust(&self.serving_ca).identity(&self.pki.alice)
    }
}

/// One control plane and one gateway.
pub(crate) struct Site {
    pub(crate) agent: Agent,
    pub(crate) plane: ControlPlane,
    pub(crate) address: SocketAddr,
}

impl Site {
    /// Starts a site that is ready.
    pub(crate) fn start(grounds: &Grounds, name: &str, options: impl FnOnce(&mut AgentOptions)) -> Self {
        let address = ports::free_address().unwrap();
        let plane = grounds.plane(&format!("{name}-plane"), &grounds.manifests(&format!("{name}-manifests"), address));
        let mut agent_options = AgentOptions::new([plane.xds_socket()]);
        options(&mut agent_options);
        let agent = Agent::start(grounds.run.path(), name, &agent_options).unwrap();
        agent.wait_ready(SOON).unwrap();
        Site { agent, plane, address }
    }
}

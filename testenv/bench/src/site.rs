//! Three apiservers behind a gateway.

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::rundir::RunDir;
use serde_json::{Value, json};

use crate::error::BenchError;
use crate::servers::{Authorities, Server};

/// The host name of the cluster.
pub(crate) const NAME: &str = "prod.example.com";
/// Answered with 2 KiB.
pub(crate) const OBJECTS: &str = "/api/v1/namespaces/default/configmaps/";
/// Answered with 64 KiB.
pub(crate) const LIST: &str = "/api/v1/configmaps";
/// A watch that stays open.
pub(crate) const WATCH: &str = "/api/v1/namespaces/default/pods?watch=true&resourceVersion=1";

/// How servers learn of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Impersonate,
    RequestHeader,
    /// Tokens go on without a question.
    Unreviewed,
}

impl Mode {
    fn settings(self) -> Value {
        match self {
            Mode::Impersonate => json!({}),
            Mode::RequestHeader => json!({"upstreamIdentity": "RequestHeader"}),
            Mode::Unreviewed => json!({"upstreamIdentity": "RequestHeader", "requestHeader": {"tokenReview": false}}),
        }
    }
}

/// Servers, gateway and authorities.
pub(crate) struct Site {
    pub(crate) trusts: Authorities,
    pub(crate) gateway: Gateway,
    pub(crate) servers: Vec<Server>,
}

impl Site {
    /// Starts three servers, which know the tokens, and a gateway without a cluster.
    pub(crate) fn start(run: &RunDir, workers: u32, tokens: &Value) -> Result<Self, BenchError> {
        let trusts = Authorities::new()?;
        let dir = run.make_dir("servers")?;
        let mut servers = Vec::new();
        for number in 1..=3 {
            let mut server = Server::start(&dir, &format!("apiserver-{number}"), &trusts, tokens)?;
            server.answers(&[(OBJECTS, 2_048), (LIST, 65_536)])?;
            servers.push(server);
        }
        let options = GatewayOptions { workers: Some(workers), ..GatewayOptions::default() };
        let gateway = Gateway::start(run, &options)?;
        Ok(Site { trusts, gateway, servers })
    }

    /// A cluster of these servers, with new certificates of the gateway.
    pub(crate) fn manifest(&self, mode: Mode) -> Result<Manifest, BenchError> {
        let identity = match mode {
            Mode::Impersonate => self.trusts.client.issue(&CertSpec::client("portcullis", [""; 0]))?,
            _ => self.trusts.front.issue(&CertSpec::client("front-proxy", [""; 0]))?,
        };
        Ok(Manifest::new(NAME, self.servers.iter().map(|server| server.address))
            .upstream(&identity, &self.trusts.server, "kubernetes")
            .serving(&self.gateway.serving_identity(NAME)?, &self.trusts.client)
            .set("/spec/portcullis", mode.settings()))
    }

    /// A user's certificate.
    pub(crate) fn user(&self, name: &str) -> Result<Identity, BenchError> {
        Ok(self.trusts.client.issue(&CertSpec::client(name, ["developers"]))?)
    }

    /// The gateway, for a client with a certificate.
    pub(crate) fn target(&self, user: &Identity) -> TlsTarget {
        self.gateway.target(NAME).identity(user)
    }
}

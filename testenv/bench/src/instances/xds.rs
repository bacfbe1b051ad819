//! xDS over mutual TLS: by its certificate an Envoy is one of its instance, and has the instance's share of what is bounded.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use portcullis_e2e::{xds_client_flags, xds_server_flags};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::ports;

use crate::error::BenchError;

/// The name of the control plane in its certificate.
const SERVER: &str = "xds.internal";

/// The authorities of both ends, with their files in a directory.
pub(super) struct XdsNetwork {
    address: SocketAddr,
    dir: PathBuf,
    servers: Ca,
    clients: Ca,
}

impl XdsNetwork {
    pub(super) fn new(dir: &Path) -> Result<Self, BenchError> {
        let (servers, clients) = (Ca::new("xds servers")?, Ca::new("xds clients")?);
        let this = XdsNetwork { address: ports::free_address()?, dir: dir.to_owned(), servers, clients };
        let identity = this.servers.issue(&CertSpec::server("xds", [SERVER]))?;
        identity.write_pem(&this.file("server.pem"), &this.file("server.key"))?;
        this.servers.write_pem(&this.file("servers.pem"))?;
        this.clients.write_pem(&this.file("clients.pem"))?;
        Ok(this)
    }

    /// The flags of the control plane.
    pub(super) fn server_flags(&self) -> Vec<String> {
        let [cert, key, ca] = ["server.pem", "server.key", "clients.pem"].map(|name| self.file(name));
        xds_server_flags(self.address, [&cert, &key, &ca])
    }

    /// The flags of an Envoy of an instance, which gets a certificate.
    pub(super) fn member_flags(&self, node: &str, instance: &str) -> Result<Vec<String>, BenchError> {
        let dns = vec![format!("{instance}.instance.portcullis.dev")];
        let identity = self.clients.issue(&CertSpec { dns, ..CertSpec::client(node, [""; 0]) })?;
        let [cert, key, ca] =
            [format!("{node}.pem"), format!("{node}.key"), "servers.pem".to_owned()].map(|name| self.file(&name));
        identity.write_pem(&cert, &key)?;
        let mut flags = xds_client_flags(self.address, [&cert, &key, &ca], SERVER);
        flags.extend(["--instance", instance].map(str::to_owned));
        Ok(flags)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use portcullis_xds::{Credentials, Listeners, Socket, SocketError, TlsError};
use tokio::net::TcpListener;

/// The listeners for Envoys.
#[derive(Debug, Args)]
pub(crate) struct XdsArguments {
    /// Unix socket for Envoy; only this process's user may connect, because keys travel there.
    #[arg(long, env = "PORTCULLIS_XDS_SOCKET", value_name = "PATH", required_unless_present = "xds_address")]
    xds_socket: Option<PathBuf>,
    /// Address for Envoys on other machines: mutual TLS only. An Envoy's node id must be the common name or a DNS name of
    /// its client certificate.
    #[arg(
        long,
        env = "PORTCULLIS_XDS_ADDRESS",
        value_name = "ADDR",
        requires_all = ["xds_cert", "xds_key", "xds_client_ca"],
    )]
    xds_address: Option<SocketAddr>,
    /// Certificate of the control plane, PEM, with its chain. Read anew when it changes, as the two below.
    #[arg(long, value_name = "FILE", requires = "xds_address")]
    xds_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "xds_address")]
    xds_key: Option<PathBuf>,
    /// The CAs of Envoys' client certificates, PEM. They should sign nothing else.
    #[arg(long, value_name = "FILE", requires = "xds_address")]
    xds_client_ca: Option<PathBuf>,
}

/// Why the listeners for Envoys cannot be opened. The operator has to act.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XdsError {
    #[error("cannot open the xDS socket")]
    Socket(#[from] SocketError),
    #[error("cannot use the credentials of xDS")]
    Tls(#[from] TlsError),
    #[error("cannot listen at {0}")]
    Listen(SocketAddr, #[source] io::Error),
}

impl XdsArguments {
    /// Opens them.
    pub(crate) async fn open(&self) -> Result<Listeners, XdsError> {
        let mut listeners = Listeners::default();
        if let Some(path) = &self.xds_socket {
            listeners.socket = Some(Socket::bind(path)?);
            tracing::info!(xds_socket = %path.display(), "listening");
        }
        if let (Some(address), Some(certificate), Some(key), Some(client_ca)) =
            (self.xds_address, &self.xds_cert, &self.xds_key, &self.xds_client_ca)
        {
            let credentials = Credentials::open(certificate, key, client_ca)?;
            let failed = |error| XdsError::Listen(address, error);
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            tracing::info!(xds_address = %listener.local_addr().map_err(failed)?, "listening");
            listeners.network = Some((listener, Arc::new(credentials)));
        }
        Ok(listeners)
    }
}

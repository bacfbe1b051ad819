//! A control plane that is reached over the network, with certificates on both sides.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;

use crate::tls_client::{ClientTlsError, Identity, client_config};

/// The address of a control plane, and the files of its connections. They are read for each connection: certificates are
/// renewed.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// One replica.
    pub(super) address: SocketAddr,
    /// The name that its certificate must carry.
    pub(super) server_name: String,
    /// The CAs of control planes.
    pub(super) ca: PathBuf,
    /// This gateway's certificate; the node id is one of its names.
    pub(super) certificate: PathBuf,
    /// The certificate's key.
    pub(super) key: PathBuf,
}

/// Why there is no connection. It is tried again, with the files as they are then.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    #[error(transparent)]
    Tls(#[from] ClientTlsError),
    #[error("{0} is no server name")]
    Name(String),
    #[error("cannot connect to {0}")]
    Connect(SocketAddr, #[source] io::Error),
    #[error("the handshake with {0} failed")]
    Handshake(SocketAddr, #[source] io::Error),
}

impl Network {
    async fn connect(self) -> Result<TokioIo<TlsStream<TcpStream>>, NetworkError> {
        let identity = Identity { certificate: &self.certificate, key: &self.key };
        let mut config = client_config(&self.ca, Some(identity))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name =
            ServerName::try_from(self.server_name.clone()).map_err(|_| NetworkError::Name(self.server_name.clone()))?;
        let tcp = TcpStream::connect(self.address).await.map_err(|error| NetworkError::Connect(self.address, error))?;
        let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
        Ok(TokioIo::new(tls.map_err(|error| NetworkError::Handshake(self.address, error))?))
    }
}

impl Service<Uri> for Network {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = NetworkError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, NetworkError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NetworkError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}

//! The server's state and its accept loop.

use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::certificate::Authorities;
use crate::error::StubError;
use crate::faults::Faults;
use crate::options::StubOptions;
use crate::record::Records;
use crate::{admin, connection, tls};

/// A server that listens but does not answer yet.
pub(crate) struct Bound {
    pub(crate) app: Arc<App>,
    pub(crate) address: SocketAddr,
    pub(crate) admin_address: Option<SocketAddr>,
    listener: TcpListener,
    admin: Option<TcpListener>,
}

impl Bound {
    pub(crate) async fn new(options: StubOptions) -> Result<Self, StubError> {
        let authorities =
            |what, pem: &Option<String>| pem.as_deref().map(|pem| Authorities::from_pem(what, pem)).transpose();
        let client_ca = authorities("the client authorities", &options.client_ca)?;
        let requestheader_ca = authorities("the front proxies' authorities", &options.requestheader_ca)?;
        let hints: Vec<&Authorities> = client_ca.iter().chain(requestheader_ca.iter()).collect();
        let acceptor = TlsAcceptor::from(tls::server_config(&options, &hints)?);
        let (listener, address) = listen(options.address, options.backlog)?;
        let (admin, admin_address) = match options.admin_address {
            Some(address) => {
                listen(address, options.backlog).map(|(listener, address)| (Some(listener), Some(address)))?
            }
            None => (None, None),
        };
        let (records, faults, load) = (Records::default(), Faults::default(), Arc::default());
        let store = Arc::clone(&options.store.0);
        let (cuts, acceptor) = (watch::Sender::default(), RwLock::new(acceptor));
        let app = Arc::new(App { options, client_ca, requestheader_ca, records, faults, load, store, cuts, acceptor });
        Ok(Self { app, address, admin_address, listener, admin })
    }

    /// Answers until the future is dropped.
    pub(crate) async fn run(self) {
        if let Some(admin) = self.admin {
            tokio::spawn(admin::run(Arc::clone(&self.app), admin));
        }
        loop {
            // A connection that failed before it was accepted is no reason to stop.
            if let Ok((tcp, _)) = self.listener.accept().await {
                tokio::spawn(connection::serve(Arc::clone(&self.app), self.app.acceptor(), tcp));
            }
        }
    }
}

fn listen(address: SocketAddr, backlog: u32) -> Result<(TcpListener, SocketAddr), StubError> {
    let failed = |source| StubError::Listen { address, source };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
    // The address of one that has just ended.
    socket.set_reuseaddr(true).map_err(failed)?;
    socket.bind(address).map_err(failed)?;
    let listener = socket.listen(backlog).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

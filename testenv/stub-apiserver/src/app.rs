use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::certificate::Authorities;
use crate::error::StubError;
use crate::faults::Faults;
use crate::load::Load;
use crate::options::StubOptions;
use crate::record::Records;
use crate::store::Store;
use crate::tls;

/// The state of the server that requests use.
pub(crate) struct App {
    pub(crate) options: StubOptions,
    pub(crate) client_ca: Option<Authorities>,
    pub(crate) requestheader_ca: Option<Authorities>,
    pub(crate) records: Records,
    pub(crate) faults: Faults,
    pub(crate) load: Arc<Load>,
    pub(crate) store: Arc<Store>,
    /// Counts how often all connections were cut.
    pub(crate) cuts: watch::Sender<u64>,
    pub(crate) acceptor: RwLock<TlsAcceptor>,
}

impl App {
    /// Connections from now on meet this certificate.
    pub(crate) fn show(&self, certificate: &str, key: &str) -> Result<(), StubError> {
        let hints: Vec<&Authorities> = self.client_ca.iter().chain(self.requestheader_ca.iter()).collect();
        let (tls_cert, tls_key) = (certificate.to_owned(), key.to_owned());
        let options = StubOptions { tls_cert, tls_key, ..self.options.clone() };
        let acceptor = TlsAcceptor::from(tls::server_config(&options, &hints)?);
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    /// Closes every connection at once, as the end of a process does.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

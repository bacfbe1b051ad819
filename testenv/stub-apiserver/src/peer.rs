use rustls_pki_types::CertificateDer;
use tokio::sync::Notify;

/// The client of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: u64,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) common_name: Option<String>,
    /// Ends the connection after what is running.
    pub(crate) goaway: Notify,
    /// Ends the connection at once.
    pub(crate) abort: Notify,
}

//! TLS of this program's own connections, from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Why TLS cannot be used. The operator has to act.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientTlsError {
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] rustls_pki_types::pem::Error),
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    #[error("the certificates cannot be used")]
    Use(#[from] rustls::Error),
}

/// The files of a client certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) certificate: &'a Path,
    pub(crate) key: &'a Path,
}

/// Reads the files. They are renewed, so they are read for each connection.
pub(crate) fn client_config(ca: &Path, identity: Option<Identity<'_>>) -> Result<ClientConfig, ClientTlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(ca)? {
        roots.add(root)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let Some(Identity { certificate, key: path }) = identity else { return Ok(builder.with_no_client_auth()) };
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| ClientTlsError::Read(path.to_owned(), error))?;
    Ok(builder.with_client_auth_cert(certificates(certificate)?, key)?)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientTlsError> {
    let read = |error| ClientTlsError::Read(path.to_owned(), error);
    let all = CertificateDer::pem_file_iter(path).map_err(read)?.collect::<Result<Vec<_>, _>>().map_err(read)?;
    if all.is_empty() { Err(ClientTlsError::Empty(path.to_owned())) } else { Ok(all) }
}

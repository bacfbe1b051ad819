//! The credentials with which xDS, and pages for people, are served over the network.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::lock::lock;

/// Why credentials cannot be used. The operator has to act. No variant holds anything of a key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// A file holds no certificate or no key, or something else.
    #[error("{0} is not the PEM of {1}")]
    Pem(PathBuf, &'static str),
    /// Certificate and key do not fit together, or are of a kind that is not supported.
    #[error("the certificate and its key cannot be used")]
    Pair(#[source] rustls::Error),
    /// The client CA cannot verify anything.
    #[error("the client CA cannot be used: {0}")]
    ClientCa(String),
}

/// Certificate, key and client CA, read anew when their files change.
#[derive(Debug)]
pub struct Credentials {
    files: Files,
    state: Mutex<LoadedFiles>,
}

#[derive(Debug)]
struct Files {
    purpose: Purpose,
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// The protocol that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// HTTP/2, to clients with a certificate only.
    Xds,
    /// HTTP/1.1, to any client; one that shows a certificate has to show a good one.
    Pages,
}

struct LoadedFiles {
    config: Arc<ServerConfig>,
    /// The contents of the files when they were read last.
    contents: Contents,
    read: Instant,
}

/// The bytes of the files; the key is secret.
type Contents = [Vec<u8>; 3];

impl std::fmt::Debug for LoadedFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedFiles").finish_non_exhaustive()
    }
}

/// Minimum interval between two reads of the files.
const RELOAD_INTERVAL: Duration = Duration::from_millis(500);

impl Credentials {
    /// Reads the files: PEM chain and key of this server, and the CAs of its clients.
    pub fn open(certificate: &Path, key: &Path, client_ca: &Path) -> Result<Self, TlsError> {
        Self::of(Purpose::Xds, certificate, key, Some(client_ca))
    }

    /// Reads the files for pages: PEM chain and key of this server, and the CAs of clients that show a certificate. Without
    /// these, none is asked for.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn of_pages(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        Self::of(Purpose::Pages, certificate, key, client_ca)
    }

    fn of(purpose: Purpose, certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let client_ca = client_ca.map(Path::to_owned);
        let files = Files { purpose, certificate: certificate.to_owned(), key: key.to_owned(), client_ca };
        let contents = files.read()?;
        let config = Arc::new(files.config(&contents)?);
        Ok(Self { files, state: Mutex::new(LoadedFiles { config, contents, read: Instant::now() }) })
    }

    /// The configuration for new handshakes. Files that cannot be used, for example half written ones, change nothing.
    pub fn newest(&self) -> Arc<ServerConfig> {
        let mut state = lock(&self.state);
        if state.read.elapsed() >= RELOAD_INTERVAL {
            state.read = Instant::now();
            match self.files.read() {
                Ok(contents) if contents == state.contents => {}
                Ok(contents) => self.replace(&mut state, contents),
                Err(error) => tracing::warn!(
                    error = chain(&error),
                    "the credentials of {} stay as they are",
                    self.files.purpose.name()
                ),
            }
        }
        Arc::clone(&state.config)
    }

    /// The CAs of clients in the newest configuration, PEM; empty if none is asked for.
    pub fn client_ca(&self) -> Vec<u8> {
        let [_, _, client_ca] = &lock(&self.state).contents;
        client_ca.clone()
    }

    fn replace(&self, state: &mut LoadedFiles, contents: Contents) {
        match self.files.config(&contents) {
            Ok(config) => {
                tracing::info!("the credentials of {} are new", self.files.purpose.name());
                *state = LoadedFiles { config: Arc::new(config), contents, read: Instant::now() };
            }
            Err(error) => tracing::warn!(
                error = chain(&error),
                "the credentials of {} stay as they are",
                self.files.purpose.name()
            ),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {}", chain(cause)))
}

impl Files {
    fn read(&self) -> Result<Contents, TlsError> {
        let read = |path: &PathBuf| fs::read(path).map_err(|error| TlsError::Read(path.clone(), error));
        let client_ca = self.client_ca.as_ref().map(read).transpose()?;
        Ok([read(&self.certificate)?, read(&self.key)?, client_ca.unwrap_or_default()])
    }

    /// TLS 1.2 and later.
    fn config(&self, [certificate, key, client_ca]: &Contents) -> Result<ServerConfig, TlsError> {
        let pair = certificates(&self.certificate, certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Pem(self.key.clone(), "a private key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match &self.client_ca {
            Some(path) => self.verifier(path, client_ca, &provider)?,
            None => Arc::new(NoClientAuth),
        };
        let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions);
        let builder = builder.map_err(TlsError::Pair)?.with_client_cert_verifier(verifier);
        let mut config = builder.with_single_cert(pair, key).map_err(TlsError::Pair)?;
        config.alpn_protocols = vec![self.purpose.protocol()];
        // A resumed session would be good for longer than the certificate, or the CA, that it was made with.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Clients show a certificate of the client CA: all of them, or those that show one.
    fn verifier(
        &self,
        path: &Path,
        client_ca: &[u8],
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let mut roots = RootCertStore::empty();
        for root in certificates(path, client_ca)? {
            roots.add(root).map_err(|error| TlsError::ClientCa(error.to_string()))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = match self.purpose {
            Purpose::Xds => builder,
            Purpose::Pages => builder.allow_unauthenticated(),
        };
        builder.build().map_err(|error| TlsError::ClientCa(error.to_string()))
    }
}

impl Purpose {
    fn protocol(self) -> Vec<u8> {
        match self {
            Purpose::Xds => b"h2".to_vec(),
            Purpose::Pages => b"http/1.1".to_vec(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Purpose::Xds => "xDS",
            Purpose::Pages => "the pages",
        }
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fault = || TlsError::Pem(path.to_owned(), "certificates");
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| fault())?;
    if all.is_empty() { Err(fault()) } else { Ok(all) }
}

//! An issuer of JSON Web Tokens: its keys, and an HTTPS server that shows what a test wants it to show.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::certs::{Ca, CertSpec};
use crate::error::{Error, Result};

/// How long a client may take for its request.
const REQUEST: Duration = Duration::from_secs(10);
/// Most bytes of a request.
const MAX_REQUEST: usize = 16 << 10;

/// A P-256 key that signs tokens.
#[derive(Debug)]
pub struct TokenSigner {
    pair: EcdsaKeyPair,
    id: String,
}

impl TokenSigner {
    /// A new key with this id (`kid`).
    ///
    /// # Errors
    /// [`Error::Certificate`] when the system has no randomness.
    pub fn new(id: &str) -> Result<Self> {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let failed = || Error::Certificate("generating a key".to_owned());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|_| failed())?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).map_err(|_| failed())?;
        Ok(Self { pair, id: id.to_owned() })
    }

    /// The public half, as a JSON Web Key.
    pub fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let coordinate = |range: std::ops::Range<usize>| point.get(range).map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": coordinate(1..33), "y": coordinate(33..65),
        })
    }

    /// A token with these claims.
    ///
    /// # Errors
    /// [`Error::Certificate`] when it cannot be signed.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        let header = json!({"alg": "ES256", "kid": self.id});
        let parts = [header.to_string(), claims.to_string()].map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = parts.join(".");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| Error::Certificate("signing".to_owned()))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// An HTTPS server with an answer for each path; 404 for others. Ends with this value.
#[derive(Debug)]
pub struct IssuerServer {
    address: SocketAddr,
    state: Arc<IssuerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct IssuerState {
    ends: AtomicBool,
    answers: Mutex<BTreeMap<String, Vec<u8>>>,
    requests: Mutex<Vec<String>>,
}

impl IssuerServer {
    /// Starts it at a port of its own, with a certificate of this CA for `localhost`.
    ///
    /// # Errors
    /// The step that failed.
    pub fn start(ca: &Ca) -> Result<Self> {
        let identity = ca.issue(&CertSpec::server("issuer", [""; 0]))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let unusable = |error: rustls::Error| Error::Certificate(error.to_string());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(identity.rustls_chain(), identity.rustls_key())
            .map_err(unusable)?;
        let failed = |source| Error::Connection { step: "listening", peer: "issuer".to_owned(), source };
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let state = Arc::new(IssuerState::default());
        let (config, of_thread) = (Arc::new(config), Arc::clone(&state));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.ends.load(Ordering::Relaxed) {
                    return;
                }
                // A client that fails is the test's subject: it sees that itself.
                let _ = of_thread.serve(stream, &config);
            }
        });
        Ok(Self { address, state, thread: Some(thread) })
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// Answers this path with a document from now on.
    pub fn show(&self, path: &str, document: &Value) {
        self.answer(path, "200 OK", &["Content-Type: application/json"], &document.to_string());
    }

    /// Answers this path so from now on.
    pub fn answer(&self, path: &str, status: &str, headers: &[&str], body: &str) {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let answer =
            format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        lock(&self.state.answers).insert(path.to_owned(), answer.into_bytes());
    }

    /// How often a path was asked for.
    pub fn requests(&self, path: &str) -> usize {
        lock(&self.state.requests).iter().filter(|asked| *asked == path).count()
    }
}

impl IssuerState {
    fn serve(&self, stream: TcpStream, config: &Arc<ServerConfig>) -> std::io::Result<()> {
        stream.set_read_timeout(Some(REQUEST))?;
        stream.set_write_timeout(Some(REQUEST))?;
        let connection = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
        while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") && request.len() < MAX_REQUEST {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            request.extend(buffer.iter().take(count));
        }
        let request = String::from_utf8_lossy(&request).into_owned();
        let path = request.split(' ').nth(1).unwrap_or_default();
        lock(&self.requests).push(path.to_owned());
        let answer = lock(&self.answers).get(path).cloned();
        let missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(answer.as_deref().unwrap_or(missing))?;
        stream.conn.send_close_notify();
        stream.flush()
    }
}

impl Drop for IssuerServer {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A panic elsewhere leaves it whole: it is changed in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

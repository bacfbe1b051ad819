//! Raw bytes over TLS: for requests that no client library would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use super::{Response, TlsTarget, http1};
use crate::error::{Error, Result};

/// A TLS connection with nothing above it.
#[derive(Debug)]
pub struct TlsConnection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    peer: String,
}

impl TlsTarget {
    /// Connects and finishes the handshake. With TLS 1.3 a server may refuse the client's certificate after that: the
    /// first read shows it.
    ///
    /// # Errors
    /// [`Error::Connection`] or [`Error::Tls`].
    pub fn connect(&self) -> Result<TlsConnection> {
        let peer = self.address.to_string();
        let mut tcp = TcpStream::connect_timeout(&self.address, self.timeout)
            .map_err(Error::connection("connecting to", &peer))?;
        for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
            set(&tcp, Some(self.timeout)).map_err(Error::connection("setting a timeout for", &peer))?;
        }
        tcp.write_all(&self.preamble).map_err(Error::connection("writing to", &peer))?;
        if self.is_tunnel {
            let answer = http1::read_response(&mut tcp, true)?;
            tunnel_is_open(answer.status)?;
        }
        let session = ClientConnection::new(self.config()?, self.server_name()?)
            .map_err(|source| Error::Tls { peer: peer.clone(), source })?;
        let mut stream = StreamOwned::new(session, tcp);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(Error::connection("handshaking with", &peer))?;
        }
        Ok(TlsConnection { stream, peer })
    }

    /// Connects, sends `bytes`, and reads one HTTP/1.1 answer.
    ///
    /// # Errors
    /// As [`TlsTarget::connect`], or [`Error::Http`].
    pub fn raw_request(&self, bytes: &[u8]) -> Result<Response> {
        let mut connection = self.connect()?;
        connection.write(bytes)?;
        connection.read_response(bytes.starts_with(b"HEAD "))
    }

    /// Connects, sends `bytes`, and reads all that comes until the server closes.
    ///
    /// # Errors
    /// As [`TlsTarget::connect`]; [`Error::Timeout`] if the server stays silent beyond it.
    pub fn raw_exchange(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut connection = self.connect()?;
        connection.write(bytes)?;
        connection.read_to_end()
    }
}

/// Whether a proxy has opened a tunnel.
pub(super) fn tunnel_is_open(status: u16) -> Result<()> {
    if status == 200 {
        Ok(())
    } else {
        Err(Error::Http { step: "opening a tunnel", reason: format!("status {status}") })
    }
}

impl TlsConnection {
    /// Sends bytes as they are.
    ///
    /// # Errors
    /// [`Error::Connection`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(Error::connection("writing to", &self.peer))
    }

    /// Reads one HTTP/1.1 answer. After a 101 the stream is the tunnel.
    ///
    /// # Errors
    /// [`Error::Http`].
    pub fn read_response(&mut self, head_request: bool) -> Result<Response> {
        http1::read_response(&mut self.stream, head_request)
    }

    /// Reads the head of a streamed answer, with the body left on the connection (see [`TlsConnection::read_chunk`]).
    ///
    /// # Errors
    /// [`Error::Http`].
    pub fn read_head(&mut self) -> Result<Response> {
        http1::read_response(&mut self.stream, true)
    }

    /// Reads one chunk of a chunked body; `None` at its end.
    ///
    /// # Errors
    /// [`Error::Http`].
    pub fn read_chunk(&mut self) -> Result<Option<Vec<u8>>> {
        http1::read_chunk(&mut self.stream)
    }

    /// Reads exactly that many bytes.
    ///
    /// # Errors
    /// [`Error::Connection`], also when the server closes before.
    pub fn read_exact(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).map_err(Error::connection("reading from", &self.peer))?;
        Ok(bytes)
    }

    /// Reads until the server closes.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the server stays silent beyond it.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>> {
        http1::read_to_end(&mut self.stream)
    }

    /// Ends the connection by a TCP reset, whatever of it is under way.
    ///
    /// # Errors
    /// [`Error::Connection`].
    pub fn abort(self) -> Result<()> {
        let set = rustix::net::sockopt::set_socket_linger(&self.stream.sock, Some(Duration::ZERO));
        set.map_err(std::io::Error::from).map_err(Error::connection("resetting", &self.peer))
    }

    /// Whether the handshake resumed the session of an earlier connection.
    pub fn is_resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// How many tickets for resuming this session elsewhere the server has sent so far.
    pub fn tickets(&self) -> u32 {
        self.stream.conn.tls13_tickets_received()
    }

    /// Whether the connection is of TLS 1.2.
    pub fn is_tls12(&self) -> bool {
        self.stream.conn.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_2)
    }

    /// The suite that the server chose, by its IANA name.
    pub fn cipher_suite(&self) -> Option<&'static str> {
        self.stream.conn.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str())
    }

    /// The protocol that the server chose.
    pub fn alpn(&self) -> Option<String> {
        self.stream.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// The server's certificates as DER, leaf first.
    pub fn server_certificates(&self) -> Vec<Vec<u8>> {
        let chain = self.stream.conn.peer_certificates().unwrap_or_default();
        chain.iter().map(|certificate| certificate.as_ref().to_owned()).collect()
    }
}

//! HTTP/1.1 without TLS, one connection per request: admin and status pages.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Response, http1};
use crate::error::{Error, Result};
use crate::wait;

/// How long connecting, each read and each write may take.
fn timeout() -> Duration {
    Duration::from_secs(10).saturating_mul(wait::deadline_factor())
}

/// GET.
///
/// # Errors
/// [`Error::Connection`] or [`Error::Http`]; a status code is never an error.
pub fn get(address: SocketAddr, path: &str) -> Result<Response> {
    request(address, "GET", path, &[], b"")
}

/// POST.
///
/// # Errors
/// As [`get`].
pub fn post(address: SocketAddr, path: &str, body: &[u8]) -> Result<Response> {
    request(address, "POST", path, &[], body)
}

/// Any method with more headers.
///
/// # Errors
/// As [`get`].
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Response> {
    let mut stream =
        TcpStream::connect_timeout(&address, timeout()).map_err(Error::connection("connecting to", address))?;
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&stream, Some(timeout())).map_err(Error::connection("setting a timeout for", address))?;
    }
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n{extra}\r\n",
        body.len()
    );
    let bytes = [head.as_bytes(), body].concat();
    stream.write_all(&bytes).map_err(Error::connection("writing to", address))?;
    http1::read_response(&mut stream, method == "HEAD")
}

/// Opens a tunnel by HTTP CONNECT, sends bytes through it and reads one HTTP/1.1 answer.
///
/// # Errors
/// As [`get`]; [`Error::Http`] if there is no tunnel.
pub fn tunnel(proxy: SocketAddr, connect: &[u8], bytes: &[u8]) -> Result<Response> {
    let mut stream =
        TcpStream::connect_timeout(&proxy, timeout()).map_err(Error::connection("connecting to", proxy))?;
    stream.set_read_timeout(Some(timeout())).map_err(Error::connection("setting a timeout for", proxy))?;
    stream.write_all(connect).map_err(Error::connection("writing to", proxy))?;
    super::raw::tunnel_is_open(http1::read_response(&mut stream, true)?.status)?;
    stream.write_all(bytes).map_err(Error::connection("writing to", proxy))?;
    http1::read_response(&mut stream, false)
}

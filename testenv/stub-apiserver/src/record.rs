//! Requests, exactly as they came.

use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::{HeaderMap, Request};
use serde::Serialize;

use crate::user::User;

/// One header line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Name in lower case: over HTTP/2 it travels so, and over HTTP/1.1 case means nothing.
    pub name: String,
    /// The value's bytes.
    pub value: Vec<u8>,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Record {
    /// Counts requests of this server from 1.
    pub id: u64,
    /// Which connection it came on; counts from 1.
    pub connection: u64,
    /// Method.
    pub method: String,
    /// Path and query as sent, nothing decoded.
    pub target: String,
    /// The Host header, or `:authority` over HTTP/2.
    pub authority: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// Header lines. Lines of one name keep their order and stand where the first of them stood.
    pub headers: Vec<Header>,
    /// Last common name of the client's certificate, verified or not.
    pub peer_common_name: Option<String>,
    /// The body, once it was read; empty for upgrades.
    pub body: Vec<u8>,
    /// Trailer lines, once the body was read.
    pub trailers: Vec<Header>,
    /// The user that the server saw.
    pub authenticated: Option<User>,
    /// As whom the request was handled: differs by impersonation.
    pub effective: Option<User>,
    /// The status that was answered; none while it is open or was cut.
    pub status: Option<u16>,
}

impl Record {
    /// All values of a header in order.
    pub fn header_all(&self, name: &str) -> Vec<String> {
        let lines = self.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        lines.map(|header| String::from_utf8_lossy(&header.value).into_owned()).collect()
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        self.header_all(name).into_iter().next()
    }

    /// Names of headers that start with a prefix, each once, in order.
    pub fn header_names_with_prefix(&self, prefix: &str) -> Vec<String> {
        let mut names: Vec<String> = self.headers.iter().map(|header| header.name.clone()).collect();
        names.retain(|name| name.starts_with(prefix));
        names.dedup();
        names
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let headers: Vec<_> = self.headers.iter().map(header_json).collect();
        let trailers: Vec<_> = self.trailers.iter().map(header_json).collect();
        serde_json::json!({
            "id": self.id, "connection": self.connection, "method": self.method, "target": self.target,
            "authority": self.authority, "version": self.version, "headers": headers,
            "peerCommonName": self.peer_common_name, "bodyBase64": STANDARD.encode(&self.body),
            "trailers": trailers,
            "authenticated": self.authenticated, "effective": self.effective, "status": self.status,
        })
    }
}

fn header_json(header: &Header) -> serde_json::Value {
    serde_json::json!({
        "name": header.name,
        "value": String::from_utf8_lossy(&header.value),
        "valueBase64": STANDARD.encode(&header.value),
    })
}

/// Connections and messages without a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// TCP connections accepted.
    pub connections: u64,
    /// Of these, handshakes that failed.
    pub handshakes_failed: u64,
    /// Connections that ended by an error of HTTP, garbage included.
    pub protocol_errors: u64,
    /// Requests, also after the records were cleared.
    pub requests: u64,
}

/// All records of a server.
#[derive(Debug, Default)]
pub(crate) struct Records {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    list: Vec<Record>,
    counters: Counters,
}

impl Records {
    /// Notes a request before anything is done with it; gives its id.
    pub(crate) fn add(&self, connection: u64, peer: Option<String>, request: &Request<hyper::body::Incoming>) -> u64 {
        let mut inner = self.lock();
        inner.counters.requests += 1;
        let id = inner.counters.requests;
        let uri = request.uri();
        let host = || request.headers().get("host").map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
        inner.list.push(Record {
            id,
            connection,
            method: request.method().to_string(),
            target: uri.path_and_query().map_or_else(|| uri.to_string(), ToString::to_string),
            authority: uri.authority().map(ToString::to_string).or_else(host).unwrap_or_default(),
            version: format!("{:?}", request.version()),
            headers: lines(request.headers()),
            peer_common_name: peer,
            body: Vec::new(),
            trailers: Vec::new(),
            authenticated: None,
            effective: None,
            status: None,
        });
        id
    }

    /// Completes a record if it was not cleared meanwhile.
    pub(crate) fn update(&self, id: u64, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.lock().list.iter_mut().rev().find(|record| record.id == id) {
            change(record);
        }
    }

    pub(crate) fn set_body(&self, id: u64, body: &Bytes, trailers: &HeaderMap) {
        self.update(id, |record| {
            record.body = body.to_vec();
            record.trailers = lines(trailers);
        });
    }

    pub(crate) fn all(&self) -> Vec<Record> {
        self.lock().list.clone()
    }

    pub(crate) fn clear(&self) {
        self.lock().list.clear();
    }

    pub(crate) fn counters(&self) -> Counters {
        self.lock().counters
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) -> u64 {
        let mut inner = self.lock();
        change(&mut inner.counters);
        inner.counters.connections
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lines(headers: &HeaderMap) -> Vec<Header> {
    headers.iter().map(|(name, value)| Header { name: name.to_string(), value: value.as_bytes().to_vec() }).collect()
}

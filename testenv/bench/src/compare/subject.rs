//! The proxies that are compared.

use std::net::SocketAddr;

use portcullis_harness::deps;

use crate::case::Case;
use crate::error::BenchError;
use crate::fixture::{Fixture, Running};
use crate::peers::{Peer, RunningPeer};

/// A way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// No proxy.
    Direct,
    /// An Envoy, the gateway's or another one.
    Envoy(Case),
    /// Another proxy.
    Other(Peer),
}

/// A running proxy, which ends with this value.
pub(crate) struct Started {
    pub(crate) address: SocketAddr,
    /// The credential of the requests, and their headers.
    pub(crate) case: Case,
    pub(crate) pid: Option<u32>,
    _envoy: Option<Running>,
    _other: Option<RunningPeer>,
}

const ENVOYS: [Case; 9] = [
    Case::Bare,
    Case::BareToken,
    Case::Lua,
    Case::Last,
    Case::Token,
    Case::Uncached,
    Case::Impersonated,
    Case::FrontProxy,
    Case::WasmLast,
];

impl Subject {
    /// In the order of the table. Other proxies are left out where they are not installed.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Subject::Direct];
        all.extend(ENVOYS.map(Subject::Envoy));
        match deps::peers() {
            Ok(_) => all.extend([Peer::Haproxy, Peer::Nginx].map(Subject::Other)),
            Err(missing) => eprintln!("*** LEFT OUT: {missing} ***"),
        }
        all
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Subject::Direct => "no proxy",
            Subject::Envoy(case) => match case {
                Case::Bare => "bare Envoy",
                Case::BareToken => "bare Envoy, a token passed on",
                Case::Lua => "Envoy, user by a Lua script",
                Case::Last => "Portcullis: certificate",
                Case::Token => "Portcullis: known token",
                Case::Uncached => "Portcullis: a new token in each request",
                Case::Impersonated => "Portcullis: certificate, kubectl --as",
                Case::FrontProxy => "Portcullis: certificate, front-proxy mode",
                Case::WasmLast => "Portcullis as wasm: certificate",
                other => other.title(),
            },
            Subject::Other(Peer::Haproxy) => "HAProxy, two headers",
            Subject::Other(Peer::Nginx) => "nginx, two headers, HTTP/1.1 to servers",
        }
    }

    /// The one that it is compared with.
    pub(crate) const fn baseline(self) -> Self {
        match self {
            Subject::Envoy(case) => Subject::Envoy(case.baseline()),
            _ => Subject::Envoy(Case::Bare),
        }
    }

    pub(crate) fn start(self, fixture: &Fixture<'_>) -> Result<Started, BenchError> {
        let nothing = Started { address: fixture.server(), case: Case::Bare, pid: None, _envoy: None, _other: None };
        Ok(match self {
            Subject::Direct => nothing,
            Subject::Envoy(case) => {
                let envoy = fixture.start(case)?;
                Started { address: envoy.address, case, pid: Some(envoy.pid()), _envoy: Some(envoy), ..nothing }
            }
            Subject::Other(peer) => {
                let other = fixture.peer(peer)?;
                Started { address: other.address, pid: Some(other.pid()), _other: Some(other), ..nothing }
            }
        })
    }
}

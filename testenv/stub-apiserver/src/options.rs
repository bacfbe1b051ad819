//! The options of a stub.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use crate::store::SharedStore;
use crate::user::TokenEntry;

/// The access without a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Anonymous {
    /// Allowed, as `system:anonymous`, who may then read health and version only.
    #[default]
    On,
    /// Refused: 401.
    Off,
    /// Only on /healthz, /livez and /readyz.
    HealthOnly,
}

/// Options of a stub. Certificates are PEM text.
#[derive(Clone)]
pub struct StubOptions {
    /// The listening address; port 0 = any free port.
    pub address: SocketAddr,
    /// The address of the plain-HTTP admin page; `None` = none.
    pub admin_address: Option<SocketAddr>,
    /// The server's certificate chain.
    pub tls_cert: String,
    /// Its private key.
    pub tls_key: String,
    /// Authorities of users' certificates; `None` = certificates are not looked at.
    pub client_ca: Option<String>,
    /// Authorities of front proxies; `None` = X-Remote-* headers mean nothing.
    pub requestheader_ca: Option<String>,
    /// Common names of front proxies that are allowed; empty = any.
    pub requestheader_names: Vec<String>,
    /// Access without a credential.
    pub anonymous: Anonymous,
    /// Bearer tokens and whose they are.
    pub tokens: BTreeMap<String, TokenEntry>,
    /// Users who may impersonate, besides members of `system:masters`.
    pub impersonators: Vec<String>,
    /// Users who may do nothing at all: 403.
    pub forbidden_users: Vec<String>,
    /// Closes an HTTP/2 connection after it answered an unauthenticated request, as kube-apiserver does.
    pub close_after_unauthenticated: bool,
    /// A part of gitVersion in /version, and the value of the header `x-stub-name`: the names of several stubs differ.
    pub name: String,
    /// How many connections may wait to be taken.
    pub backlog: u32,
    /// Its objects: its own, or those that several stubs share.
    pub store: SharedStore,
}

impl StubOptions {
    /// A stub on any free loopback port with this server certificate; anonymous on, no admin page.
    pub fn new(tls_cert: impl Into<String>, tls_key: impl Into<String>) -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin_address: None,
            tls_cert: tls_cert.into(),
            tls_key: tls_key.into(),
            client_ca: None,
            requestheader_ca: None,
            requestheader_names: Vec::new(),
            backlog: 1024,
            anonymous: Anonymous::On,
            tokens: BTreeMap::new(),
            impersonators: Vec::new(),
            forbidden_users: Vec::new(),
            close_after_unauthenticated: true,
            name: "stub".to_owned(),
            store: SharedStore::default(),
        }
    }

    /// Trusts users' certificates of this authority.
    #[must_use]
    pub fn client_ca(self, pem: impl Into<String>) -> Self {
        Self { client_ca: Some(pem.into()), ..self }
    }

    /// Knows a bearer token.
    #[must_use]
    pub fn token(mut self, token: &str, entry: TokenEntry) -> Self {
        self.tokens.insert(token.to_owned(), entry);
        self
    }
}

impl std::fmt::Debug for StubOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, address, anonymous, .. } = self;
        let mut shown = f.debug_struct("StubOptions");
        shown.field("name", name).field("address", address).field("anonymous", anonymous).finish_non_exhaustive()
    }
}

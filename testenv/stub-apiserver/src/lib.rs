//! A stand-in for kube-apiserver in tests: it speaks TLS, HTTP/2 and HTTP/1.1, authenticates per request, keeps a few
//! kinds of objects in memory, and remembers every request exactly as it came.
//!
//! It follows kube-apiserver where a gateway could notice a difference (authentication, impersonation, Status bodies,
//! upgrades, closing after unauthenticated answers) and is simple everywhere else. It shares no code with the product,
//! so that both cannot be wrong in the same way.

mod admin;
mod app;
mod authenticate;
mod authorize;
mod certificate;
mod clock;
mod connection;
mod discovery;
mod error;
mod faults;
mod handle;
mod handler;
mod impersonate;
mod load;
mod objects;
mod options;
mod patch;
mod peer;
mod protobuf;
mod record;
mod resources;
mod reviews;
mod route;
mod server;
mod status;
mod store;
mod streams;
mod text;
mod tls;
mod upgrade;
mod user;
mod watch;

pub use error::StubError;
pub use faults::{Action, Fault};
pub use handle::StubServer;
pub use options::{Anonymous, StubOptions};
pub use record::{Counters, Header, Record};
pub use store::SharedStore;
pub use user::{TokenEntry, User};

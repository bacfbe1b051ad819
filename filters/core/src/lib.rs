//! What a gateway filter in front of kube-apiserver knows, independent of the host that runs it.
//!
//! A host (the dynamic module, the proxy-wasm filter) calls [`exchange::Exchange`] from the proxy's hooks and maps
//! [`exchange::Host`] to the proxy; [`Gateway::decide`] says whether the request goes upstream, where, and with which headers,
//! or how it is refused.
//!
//! # Map
//! - [`exchange`]: a request and its response as one state machine, which every host drives; a good place to start.
//! - [`gateway`]: the decision about one request, phase by phase.
//! - [`hygiene`]: which headers no client may send on, found in one pass over the request.
//! - [`request_info`]: method, path and query to verb, group, resource and name, as kube-apiserver resolves them.
//! - [`x509`]: a client certificate's chain to a user.
//! - [`review`]: what only the upstream can say: whose a token is, and who may act as another.
//! - [`tunnel`]: what an upgrade's client may say before the upstream has agreed.
//! - [`policy`]: which dispatch policy a request matches.
//! - [`limit`]: how many requests run at a time; [`bucket`]: how many come per second.
//! - [`store`]: what is remembered of credentials, in how much room, and until when.
//! - [`alive`]: what outlives the configuration that made it.
//! - [`identity`]: the user as header lines for the upstream.
//! - [`observe`]: what an operator sees of a request: labels of closed sets, the access log's line.
//! - [`attribution`]: what the gateway tells the upstream's audit log beside it.
//! - [`refusal`]: every answer that the filter gives itself, as a Kubernetes `Status`.
//!
//! # Invariants
//! No I/O, no clock, no threads, no environment: the time is an argument. Anything a client can write is hostile.

pub mod alive;
pub mod attribution;
mod authenticate;
pub mod authority;
pub mod bucket;
pub mod cluster;
pub mod credential;
mod dns;
pub mod exchange;
pub mod farewell;
pub mod gateway;
mod go_text;
pub mod hygiene;
pub mod identity;
mod impersonation;
pub mod limit;
mod moment;
pub mod observe;
pub mod policy;
mod protected;
pub mod refusal;
pub mod request_info;
pub mod review;
pub mod store;
pub mod tunnel;
pub mod x509;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod threads;

pub use cluster::{Cluster, CompileError, Memory};
pub use gateway::{Decision, Forward, Gateway, Peer, RequestFacts};
pub use moment::Moment;
pub use refusal::Refusal;

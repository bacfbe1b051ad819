//! Decisions of a gateway filter in front of kube-apiserver, independent of the host that runs it.
//!
//! A host (the dynamic module, the proxy-wasm filter) calls [`exchange::Exchange`] from the proxy's hooks and maps
//! [`exchange::Host`] to the proxy; [`Gateway::decide`] says whether the request goes upstream, where, and with which headers,
//! or how it is refused.
//!
//! # Map
//! From the bottom up; no module imports from one further down this list.
//! - [`schedule`]: tasks by the time at which they are due. [`next_turn`]: the next turn of a proxy's main thread. [`fault`]: faults in builds for tests. `hash_seed` and
//!   `seeded_hash`: hashes of texts with a secret.
//! - [`request_info`]: method, path and query to verb, group, resource and name, as kube-apiserver resolves them.
//! - [`identity`]: a user, as kube-apiserver knows one; `user_digest`: a digest of one; [`policy`]: the first dispatch policy that a request matches;
//!   [`upstream_user`]: a user as header lines for the upstream.
//! - [`x509`]: a client certificate's chain to a user; [`local_token`]: a token that its issuer's keys verify; [`review`]: TokenReviews and SubjectAccessReviews, and what is
//!   remembered of their answers.
//! - [`refusal`]: every response that the filter gives itself, as a Kubernetes `Status`.
//! - [`credential`] and [`header_scan`]: bearer tokens, and the headers that no client may send, found in one pass.
//! - [`request`]: a request as the phases hand it on. `protected`, `impersonation`, [`attribution`]: the checks of identities.
//! - [`limit`] and [`bucket`]: requests in flight and per second; [`global_limit`]: parts of limits that gateways share;
//!   [`flow_limit`]: any of these; [`fair`]: requests that wait for a seat. [`rebalance`]: draining of connections at random.
//!   [`observe`]: metrics and the access log.
//! - [`state_store`]: state that outlives a configuration; `shadow`: an alternative to the policies that only reports;
//!   [`cluster`]: one cluster's configuration, compiled.
//! - [`gateway`]: the decision about one request, phase by phase.
//! - [`exchange`]: a request and its response as one state machine, which every host drives; a good place to start.
//!
//! # Invariants
//! No I/O, no clock, no environment: time and randomness are arguments. It starts no threads; [`schedule::TaskQueue`] keeps one of
//! the host's waiting. Anything a client can write is hostile.

mod access;
pub mod attribution;
mod authenticate;
pub mod bucket;
pub mod cluster;
mod compile_error;
pub mod credential;
mod denials;
mod dns;
mod effective_user;
pub mod exchange;
pub mod fair;
pub mod fault;
pub mod flow_limit;
pub mod gateway;
pub mod global_limit;
mod go_strings;
mod hash_seed;
pub mod header_scan;
pub mod host_names;
pub mod identity;
mod impersonation;
pub mod limit;
mod limit_places;
pub mod local_token;
pub mod long_streams;
mod moment;
pub mod next_turn;
pub mod observe;
pub mod policy;
mod protected;
pub mod rebalance;
pub mod refusal;
pub mod request;
mod request_id;
pub mod request_info;
pub mod resource_attributes;
pub mod review;
mod room;
pub mod schedule;
mod seeded_hash;
mod shadow;
pub mod state_store;
mod stream_origin;
pub mod upgrade_gate;
pub mod upstream_user;
mod user_digest;
pub mod weak_map;
pub mod x509;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod threads;

pub use cluster::{Cluster, CompileError};
pub use gateway::{Decision, Forward, Gateway};
pub use hash_seed::seed_hashes;
pub use moment::Moment;
pub use refusal::Refusal;
pub use request::{Peer, RequestContext};
pub use request_id::seed_request_ids;
pub use seeded_hash::SeededHash;
pub use state_store::StateStore;

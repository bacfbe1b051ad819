//! The promises, judged by a real kube-apiserver and a real kubectl.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod anonymous;
mod attack;
mod client_address;
mod compose;
mod container;
mod crd;
mod credentials;
mod declared;
mod default_client_ca;
mod deploy;
mod freeze;
mod gardener;
mod health_rights;
mod istio;
mod kubectl;
mod matrix;
mod passthrough;
mod plain;
mod protected;
mod refusals;
mod sessions;
mod sources;
mod status;
mod streams;
mod tokens;
mod wasm;
mod world;

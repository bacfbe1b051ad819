//! The promises, judged by a real kube-apiserver and a real kubectl.
#![cfg(test)]

mod anonymous;
mod attack;
mod client_address;
mod compose;
mod console;
mod console_login;
mod container;
mod crd;
mod credentials;
mod declared;
mod default_client_ca;
mod deploy;
mod fair;
mod fixture;
mod freeze;
mod gardener;
mod health_rights;
mod istio;
mod kubectl;
mod matrix;
mod metrics;
mod onboard;
mod passthrough;
mod plain;
mod protected;
mod refusals;
mod sessions;
mod sources;
mod status;
mod store;
mod streams;
mod test_cmd;
mod tokens;
mod traces;
mod wasm;

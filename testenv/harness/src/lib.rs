//! The test environment of Portcullis: real processes (Envoy, etcd, kube-apiserver, kubectl, istiod, Envoy Gateway, the control plane),
//! certificates, ports and hostile clients, behind a blocking API.
//!
//! Every process that is started here ends when its value is dropped, and with the test process even if that is killed with
//! SIGKILL. Everything listens on loopback only. Nothing of the product depends on this crate.

pub mod agent;
pub mod balancer;
pub mod browser;
pub mod certs;
pub mod client;
pub mod conformance;
pub mod control_plane;
pub mod deps;
pub mod dns;
pub mod envoy;
pub mod envoy_gateway;
mod error;
mod inotify;
pub mod issuer;
pub mod istiod;
pub mod kube;
pub mod kubeconfig;
pub mod otel;
mod paths;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod redis;
pub mod rundir;
pub mod wait;

pub use error::{Error, Result};
pub use paths::project_root;
pub use rundir::write_private;

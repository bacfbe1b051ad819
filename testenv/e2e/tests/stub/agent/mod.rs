//! `portcullis gateway` with a real Envoy: readiness, exit, health reports, and several control planes.

mod exit;
mod replicas;
mod reports;
mod rolling;
mod site;
mod supervision;

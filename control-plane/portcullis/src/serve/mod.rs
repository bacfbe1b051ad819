//! `portcullis serve`: objects in, xDS out.

mod departed;
mod documents;
mod filter_views;
mod fleet;
mod follow;
#[cfg(test)]
mod generations;
mod guard;
mod http;
mod lingering;
mod metrics;
mod model;
mod observer;
mod page;
mod probes;
mod references;
mod run;
mod source;
mod source_state;
mod state;
mod status;
mod tell;
mod version;
mod watchdog;
mod withdrawn;
mod writer;
mod xds;

pub(crate) use model::{Judge, Model, ModelError, check_client_ca};
pub(crate) use references::Resolved;
pub(crate) use run::run;
pub(crate) use source::{LEASE_NAME, SourceArguments};
pub(crate) use state::StateArguments;
pub(crate) use xds::XdsArguments;

//! `portcullis serve`: objects in, xDS out.

mod departed;
mod follow;
mod http;
mod metrics;
mod model;
mod probes;
mod references;
mod run;
mod source;
mod source_state;
mod state;
mod status;
mod tell;
mod watchdog;

pub(crate) use model::{Model, ModelError};
pub(crate) use references::Resolved;
pub(crate) use run::run;
pub(crate) use source::{LEASE_NAME, SourceArguments};
pub(crate) use state::StateArguments;

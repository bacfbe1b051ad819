//! `portcullis serve`: objects in, xDS out.

mod departed;
mod http;
mod model;
mod references;
mod run;
mod source;
mod source_state;
mod status;

pub(crate) use model::{Judge, Model, ModelError};
pub(crate) use references::Resolved;
pub(crate) use run::run;
pub(crate) use source::{LEASE_NAME, SourceArguments};

//! `portcullis serve`: objects in, xDS out.

mod departed;
mod flavours;
mod fleet;
mod guard;
mod http;
mod model;
mod observer;
mod page;
mod references;
mod run;
mod source;
mod source_state;
mod status;
mod version;
mod writer;
mod xds;

pub(crate) use model::{Model, ModelError};
pub(crate) use references::Resolved;
pub(crate) use run::run;
pub(crate) use source::{LEASE_NAME, SourceArguments};
pub(crate) use xds::XdsArguments;

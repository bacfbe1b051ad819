//! `portcullis serve`: objects in, xDS out.

mod departed;
mod fleet;
mod guard;
mod http;
mod model;
mod observer;
mod page;
mod run;
mod status;
mod version;
#[allow(dead_code, reason = "the Kubernetes source is to start it")]
mod writer;

pub(crate) use model::{Model, ModelError};
pub(crate) use run::run;

//! `portcullis serve`: objects in, xDS out.

mod departed;
mod http;
mod model;
mod run;
mod status;

pub(crate) use model::{Model, ModelError};
pub(crate) use run::run;

//! References in place of inline fields: their shape, and how they are replaced by what they refer to.
//!
//! - [`slot`]: the five references, and the fields in whose place each stands.
//! - [`shape`]: what is wrong with a reference whatever it refers to.
//! - [`settings`]: the references of `GatewaySettings`.
//! - [`resolve`]: from a document and [`crate::Materials`] to a document without references.

mod resolve;
mod settings;
mod shape;
mod slot;

#[cfg(test)]
mod tests;

pub use resolve::{Resolution, referenced_files, resolve};
pub use settings::{resolve_settings, without_references};
pub(crate) use settings::{unresolved_authority, unresolved_certificate};
pub(crate) use shape::check_references;
pub(crate) use slot::UNKNOWN_TOKEN;
pub use slot::blamed_reference;

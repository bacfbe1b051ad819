//! References in place of inline fields: their shape, and how they are replaced by what they refer to.
//!
//! - [`field`]: the five references, and the fields that each replaces.
//! - [`shape`]: what is wrong with a reference whatever it refers to.
//! - [`settings`]: the references of `GatewaySettings`.
//! - [`upstream`]: the references of a `KubernetesUpstream`.
//! - [`resolve`]: from a document and [`crate::ReferencedData`] to a document without references.

mod field;
mod resolve;
mod settings;
mod shape;
mod upstream;

#[cfg(test)]
mod tests;

pub(crate) use field::UNKNOWN_TOKEN;
pub use field::{content_of_references, reference_of_path};
pub use resolve::{Resolution, referenced_files, resolve, with_placeholders};
pub use settings::{resolve_settings, without_references};
pub(crate) use settings::{unresolved_authority, unresolved_certificate};
pub(crate) use shape::check_references;
pub use upstream::{UnresolvedUpstream, UpstreamContent, assumed_material, referred_by_upstream, upstream_material};

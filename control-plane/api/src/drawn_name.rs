use std::hash::{BuildHasher, Hasher, RandomState};

/// A name that each process draws, beginning with `name`, for a member of a document that no source can bring. A right to write
/// the status of an object is none to write such a member.
pub(crate) fn drawn_name(name: &str) -> String {
    format!("{name}-{:016x}", RandomState::new().build_hasher().finish())
}

use portcullis_api::{ClaimKind, Claims};

/// How strong a claim is among those of the same name. Lower is stronger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank<'a> {
    /// Whether the name was not the object's before.
    pub(super) is_new: bool,
    pub(super) kind: ClaimKind,
    pub(super) seniority: Seniority<'a>,
}

/// Which object comes first. An object without a creation time counts as younger than any that has one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seniority<'a> {
    undated: bool,
    created: Option<&'a str>,
    name: &'a str,
    index: usize,
}

impl<'a> Seniority<'a> {
    pub(super) fn new(claims: &'a Claims, index: usize) -> Self {
        let created = claims.creation_timestamp.as_deref();
        Self { undated: created.is_none(), created, name: &claims.name, index }
    }
}

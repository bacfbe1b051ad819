use std::collections::HashMap;

use portcullis_gateway_api::{ReferenceGrant, ReferenceGrantSpec};

/// The permissions for references across namespaces.
pub(crate) struct Grants<'a> {
    by_namespace: HashMap<&'a str, Vec<&'a ReferenceGrantSpec>>,
}

/// Objects of a kind that refer to others.
#[derive(Clone, Copy)]
pub(crate) struct Referrer<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
}

/// An object that is referred to.
#[derive(Clone, Copy)]
pub(crate) struct Referent<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> Grants<'a> {
    pub(crate) fn of(grants: &'a [ReferenceGrant]) -> Self {
        let mut by_namespace: HashMap<&str, Vec<&ReferenceGrantSpec>> = HashMap::new();
        for grant in grants {
            by_namespace.entry(&grant.metadata.namespace).or_default().push(&grant.spec);
        }
        Self { by_namespace }
    }

    /// Whether an object may refer to another one: within a namespace always, across namespaces with a grant in the other one.
    /// A grant with a field that is not known permits nothing, because the field could narrow it.
    pub(crate) fn permit(&self, from: Referrer<'_>, to: Referent<'_>) -> bool {
        let grants = self.by_namespace.get(to.namespace).into_iter().flatten();
        from.namespace == to.namespace || grants.into_iter().any(|grant| permits(grant, from, to))
    }
}

fn permits(grant: &ReferenceGrantSpec, from: Referrer<'_>, to: Referent<'_>) -> bool {
    let is_from = grant.from.iter().any(|one| {
        one.group == from.group && one.kind == from.kind && one.namespace == from.namespace && one.other.is_empty()
    });
    let is_to = grant.to.iter().any(|one| {
        one.group == to.group
            && one.kind == to.kind
            && one.name.as_deref().is_none_or(|name| name == to.name)
            && one.other.is_empty()
    });
    is_from && is_to && grant.other.is_empty()
}

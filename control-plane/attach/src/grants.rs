use std::collections::{HashMap, HashSet};

use portcullis_gateway_api::{GrantFrom, GrantTo, ReferenceGrant};

use crate::name::{CLUSTER, UPSTREAM};

/// API group and kind of everything to which a grant may let refer. Others are not asked for.
const REFERENTS: [(&str, &str); 5] = [("", "Secret"), ("", "ConfigMap"), ("", "Service"), CLUSTER, UPSTREAM];

/// The permissions for references across namespaces. Tenants write thousands of grants, and thousands of references: whether one of
/// the former permits one of the latter is found without looking at all.
pub(crate) struct Grants<'a> {
    permitted: HashMap<(Referrer<'a>, Referents<'a>), PermittedNames<'a>>,
}

/// Objects of a kind that refer to others.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

/// Objects of a kind in a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Referents<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
}

#[derive(Default)]
struct PermittedNames<'a> {
    are_all: bool,
    names: HashSet<&'a str>,
}

impl<'a> Grants<'a> {
    /// Those by which some of the referrers may refer. A grant with a field that is not known permits nothing, because the field could
    /// narrow it.
    pub(crate) fn of(grants: &'a [ReferenceGrant], referrers: &HashSet<Referrer<'_>>) -> Self {
        let mut permitted = Self { permitted: HashMap::new() };
        for grant in grants.iter().filter(|grant| grant.spec.other.is_empty()) {
            for from in referring(grant, referrers) {
                permitted.add(from, grant);
            }
        }
        permitted
    }

    fn add(&mut self, from: Referrer<'a>, grant: &'a ReferenceGrant) {
        let is_known = |to: &&GrantTo| REFERENTS.contains(&(to.group.as_str(), to.kind.as_str()));
        for to in grant.spec.to.iter().filter(|to| to.other.is_empty()).filter(is_known) {
            #[cfg(test)]
            crate::tests::steps::count(crate::tests::steps::Step::Grant);
            let referents = Referents { group: &to.group, kind: &to.kind, namespace: &grant.metadata.namespace };
            let permitted = self.permitted.entry((from, referents)).or_default();
            match &to.name {
                None => permitted.are_all = true,
                Some(name) => drop(permitted.names.insert(name)),
            }
        }
    }

    /// Whether an object may refer to another one: within a namespace always, across namespaces with a grant in the other one.
    pub(crate) fn permit(&self, from: Referrer<'_>, to: Referent<'_>) -> bool {
        #[cfg(test)]
        crate::tests::steps::count(crate::tests::steps::Step::Grant);
        let Referent { group, kind, namespace, name } = to;
        let permitted = || self.permitted.get(&(from, Referents { group, kind, namespace }));
        from.namespace == namespace || permitted().is_some_and(|one| one.are_all || one.names.contains(name))
    }
}

/// The referrers among those to which a grant applies, each once. It may name others, which are not here.
fn referring<'a>(grant: &'a ReferenceGrant, referrers: &HashSet<Referrer<'_>>) -> HashSet<Referrer<'a>> {
    let referrer = |from: &'a GrantFrom| {
        #[cfg(test)]
        crate::tests::steps::count(crate::tests::steps::Step::Grant);
        let GrantFrom { group, kind, namespace, other } = from;
        other.is_empty().then_some(Referrer { group, kind, namespace })
    };
    grant.spec.from.iter().filter_map(referrer).filter(|one| referrers.contains(one)).collect()
}

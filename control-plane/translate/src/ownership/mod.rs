//! Which object gets which of the names that several claim.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use portcullis_api::{ClaimKind, Claims, Problem, WildcardSubdomains};

/// A name that an object claims and another one owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostName {
    pub(crate) name: String,
    pub(crate) kind: ClaimKind,
    /// The problem for its author.
    pub(crate) problem: Problem,
}

/// For each object, the names that it claims and does not own.
///
/// A name belongs to the object that owned it before according to the objects' status, then to the object with this
/// `metadata.name`, then to the older object, then by name, then to the object that was read first. A name out of another
/// object's wildcard belongs to its claimant only if the claimant owned it before, or comes first by age and name. Whether the
/// owner itself is served does not matter: a typing error in it must not hand its clients to another object.
pub(crate) fn conflicts(claims: &[&Claims], below: WildcardSubdomains) -> Vec<Vec<LostName>> {
    let owners = Owners::of(claims, below);
    let lost = |(index, claim): (usize, &&Claims)| {
        let names = claim.names.iter().filter_map(|(name, kind)| {
            let problem = match owners.by_name.get(name.as_str())? {
                Owner::Claimant(owner) if *owner == index => return None,
                Owner::Claimant(owner) => taken(name, *kind, claim, claims.get(*owner)?),
                Owner::Wildcard(wildcard, owner) => covered(name, *kind, wildcard, claims.get(*owner)?),
            };
            Some(LostName { name: name.clone(), kind: *kind, problem })
        });
        names.collect()
    };
    claims.iter().enumerate().map(lost).collect()
}

/// The owner of a name.
enum Owner<'a> {
    /// One of those who claim it, by its index.
    Claimant(usize),
    /// None of the claimants: the suffix after `*.` of another object's wildcard, and that object.
    Wildcard(&'a str, usize),
}

struct Owners<'a> {
    by_name: HashMap<&'a str, Owner<'a>>,
    /// By the suffix after `*.`.
    wildcards: HashMap<&'a str, Claimant<'a>>,
}

/// One who claims a name.
#[derive(Clone, Copy)]
struct Claimant<'a> {
    name: &'a str,
    index: usize,
    priority: ClaimPriority<'a>,
}

impl<'a> Owners<'a> {
    fn of(claims: &[&'a Claims], below: WildcardSubdomains) -> Self {
        let mut owners = Self { by_name: HashMap::new(), wildcards: HashMap::new() };
        for claimants in claimants(claims).chunk_by(|one, other| one.name == other.name) {
            let Some(name) = claimants.first().map(|one| one.name) else { continue };
            let closest = owners.closest(name).filter(|_| below == WildcardSubdomains::Reserved);
            let is_free = |one: &&Claimant<'a>| closest.is_none_or(|(_, wildcard)| !one.is_beaten_by(&wildcard));
            let owner = claimants.iter().find(is_free);
            if let (Some(owner), Some(parent)) = (owner, name.strip_prefix("*.")) {
                owners.wildcards.insert(parent, *owner);
            }
            let owner = match (owner, closest) {
                (Some(owner), _) => Owner::Claimant(owner.index),
                (None, Some((parent, wildcard))) => Owner::Wildcard(parent, wildcard.index),
                (None, None) => continue,
            };
            owners.by_name.insert(name, owner);
        }
        owners
    }

    /// The wildcard that serves a name without an owner of its own. As in Envoy, a wildcard covers any number of labels.
    fn closest(&self, name: &'a str) -> Option<(&'a str, Claimant<'a>)> {
        let mut rest = name;
        while let Some((_, parent)) = rest.split_once('.') {
            if let Some(owner) = self.wildcards.get(parent) {
                return Some((parent, *owner));
            }
            rest = parent;
        }
        None
    }
}

/// The claimants of each name, the strongest first. A name comes after all wildcards that cover it: these have fewer labels, or
/// as many.
fn claimants<'a>(claims: &[&'a Claims]) -> Vec<Claimant<'a>> {
    let claim = |(index, claim): (usize, &&'a Claims)| {
        let claim: &'a Claims = claim;
        let age = Age::new(claim, index);
        claim.names.iter().map(move |(name, kind)| {
            let priority = ClaimPriority { is_new: !claim.previously_owned.contains(name), kind: *kind, age };
            Claimant { name, index, priority }
        })
    };
    let mut all: Vec<_> = claims.iter().enumerate().flat_map(claim).collect();
    let depth = |name: &str| (name.matches('.').count(), !name.starts_with('*'));
    all.sort_by_cached_key(|one| (depth(one.name), one.name, one.priority));
    all
}

impl Claimant<'_> {
    /// Whether it may not take a name out of this wildcard. It keeps a name that it owned before: else an older object could
    /// take a younger one's name by a wildcard of its own.
    fn is_beaten_by(&self, wildcard: &Self) -> bool {
        let order = |one: &Self| (one.priority.is_new, one.priority.age);
        self.priority.is_new && self.index != wildcard.index && order(wildcard) < order(self)
    }
}

fn taken(name: &str, kind: ClaimKind, claim: &Claims, owner: &Claims) -> Problem {
    let message = if owner.name == claim.name {
        format!("another UpstreamCluster is named {name} too, and is older or was read first")
    } else {
        format!("the name {name} belongs to the UpstreamCluster {}", owner.name)
    };
    Problem::new(field(kind), message)
}

fn covered(name: &str, kind: ClaimKind, wildcard: &str, owner: &Claims) -> Problem {
    let owner = &owner.name;
    let message = format!("the name {name} is covered by *.{wildcard}, which belongs to the UpstreamCluster {owner}");
    Problem::new(field(kind), message)
        .hint("wildcardSubdomains: Allowed in the GatewaySettings lets any object take names out of others' wildcards")
}

fn field(kind: ClaimKind) -> &'static str {
    match kind {
        ClaimKind::Name => "metadata.name",
        ClaimKind::ServerName => "spec.secureServing.serverNames",
        ClaimKind::VirtualIp => "spec.portcullis.virtualIPs",
    }
}

/// How strong a claim is among those of the same name. Lower is stronger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimPriority<'a> {
    /// Whether the name was not the object's before.
    is_new: bool,
    kind: ClaimKind,
    age: Age<'a>,
}

/// Which object comes first. An object without a creation time counts as younger than any that has one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Age<'a> {
    undated: bool,
    created: Option<&'a str>,
    name: &'a str,
    index: usize,
}

impl<'a> Age<'a> {
    fn new(claims: &'a Claims, index: usize) -> Self {
        let created = claims.creation_timestamp.as_deref();
        Self { undated: created.is_none(), created, name: &claims.name, index }
    }
}

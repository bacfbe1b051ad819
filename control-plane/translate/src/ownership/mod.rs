//! Which object gets which of the names that several claim.

mod rank;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use portcullis_api::{ClaimKind, Claims, NamesBelowWildcards, Problem};

use rank::{Rank, Seniority};

/// A name that an object claims and another one owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) name: String,
    pub(crate) kind: ClaimKind,
    /// What its writer is told.
    pub(crate) problem: Problem,
}

/// For each object, the names that it claims and does not get.
///
/// A name goes to whom it was given before, as far as the objects' status tells, then to `metadata.name` before the others,
/// then to the older object, then by name, then to the one that was read first. Who would take it out of another object's
/// wildcard gets it only if it had it before, or is the stronger one by age and name. Whether the owner itself is served
/// does not matter: a typo in it must not hand its clients to somebody else.
pub(crate) fn conflicts(claims: &[&Claims], below: NamesBelowWildcards) -> Vec<Vec<Lost>> {
    let owners = Owners::of(claims, below);
    let lost = |(index, claim): (usize, &&Claims)| {
        let names = claim.names.iter().filter_map(|(name, kind)| {
            let problem = match owners.by_name.get(name.as_str())? {
                Owner::Claimant(owner) if *owner == index => return None,
                Owner::Claimant(owner) => taken(name, *kind, claim, claims.get(*owner)?),
                Owner::Wildcard(wildcard, owner) => covered(name, *kind, wildcard, claims.get(*owner)?),
            };
            Some(Lost { name: name.clone(), kind: *kind, problem })
        });
        names.collect()
    };
    claims.iter().enumerate().map(lost).collect()
}

/// Who is served under a name.
enum Owner<'a> {
    /// One of those who claim it, by its index.
    Claimant(usize),
    /// None of them: what stands behind the `*.` of another object's wildcard, and that object.
    Wildcard(&'a str, usize),
}

struct Owners<'a> {
    by_name: HashMap<&'a str, Owner<'a>>,
    /// By what stands behind the `*.`.
    wildcards: HashMap<&'a str, Contender<'a>>,
}

/// One who claims a name.
#[derive(Clone, Copy)]
struct Contender<'a> {
    name: &'a str,
    index: usize,
    rank: Rank<'a>,
}

impl<'a> Owners<'a> {
    fn of(claims: &[&'a Claims], below: NamesBelowWildcards) -> Self {
        let mut owners = Self { by_name: HashMap::new(), wildcards: HashMap::new() };
        for contenders in contenders(claims).chunk_by(|one, other| one.name == other.name) {
            let Some(name) = contenders.first().map(|one| one.name) else { continue };
            let closest = owners.closest(name).filter(|_| below == NamesBelowWildcards::Conflict);
            let is_free = |one: &&Contender<'a>| closest.is_none_or(|(_, wildcard)| !one.is_beaten_by(&wildcard));
            let owner = contenders.iter().find(is_free);
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

    /// The wildcard that serves a name which nobody else does. As Envoy has it, a wildcard stands for any number of labels.
    fn closest(&self, name: &'a str) -> Option<(&'a str, Contender<'a>)> {
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

/// Who claims which name, of each name the strongest first. A name comes behind all wildcards that cover it: these have
/// fewer labels, or as many.
fn contenders<'a>(claims: &[&'a Claims]) -> Vec<Contender<'a>> {
    let claim = |(index, claim): (usize, &&'a Claims)| {
        let claim: &'a Claims = claim;
        let seniority = Seniority::new(claim, index);
        claim.names.iter().map(move |(name, kind)| {
            let rank = Rank { is_new: !claim.held.contains(name), kind: *kind, seniority };
            Contender { name, index, rank }
        })
    };
    let mut all: Vec<_> = claims.iter().enumerate().flat_map(claim).collect();
    let depth = |name: &str| (name.matches('.').count(), !name.starts_with('*'));
    all.sort_by_cached_key(|one| (depth(one.name), one.name, one.rank));
    all
}

impl Contender<'_> {
    /// Whether it may not take a name out of this wildcard. What it was given once it keeps: else an older object could take
    /// a younger one's name by a wildcard of its own.
    fn is_beaten_by(&self, wildcard: &Self) -> bool {
        let order = |one: &Self| (one.rank.is_new, one.rank.seniority);
        self.rank.is_new && self.index != wildcard.index && order(wildcard) < order(self)
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
        .hint("namesBelowWildcards: Allow in the GatewaySettings lets any object take names out of others' wildcards")
}

fn field(kind: ClaimKind) -> &'static str {
    match kind {
        ClaimKind::Name => "metadata.name",
        ClaimKind::ServerName => "spec.secureServing.serverNames",
        ClaimKind::VirtualIp => "spec.portcullis.virtualIPs",
    }
}

use std::collections::BTreeMap;

use portcullis_api::{ClaimKind, Claims, Problem};

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
/// then to the older object, then by name, then to the one that was read first. Whether the owner itself is served does
/// not matter: a typo in it must not hand its clients to somebody else.
pub(crate) fn conflicts(claims: &[&Claims]) -> Vec<Vec<Lost>> {
    let mut owners: BTreeMap<&str, (Rank<'_>, usize)> = BTreeMap::new();
    for (index, claim) in claims.iter().copied().enumerate() {
        for (name, kind) in &claim.names {
            let rank = Rank::new(name, *kind, claim, index);
            if owners.get(name.as_str()).is_none_or(|(best, _)| rank < *best) {
                owners.insert(name, (rank, index));
            }
        }
    }
    let lost = |(index, claim): (usize, &&Claims)| {
        let names = claim.names.iter().filter_map(|(name, kind)| {
            let (_, owner) = owners.get(name.as_str()).filter(|(_, owner)| *owner != index)?;
            let problem = problem(name, *kind, claim, claims.get(*owner)?);
            Some(Lost { name: name.clone(), kind: *kind, problem })
        });
        names.collect()
    };
    claims.iter().enumerate().map(lost).collect()
}

fn problem(name: &str, kind: ClaimKind, claim: &Claims, owner: &Claims) -> Problem {
    let message = if owner.name == claim.name {
        format!("another UpstreamCluster is named {name} too, and is older or was read first")
    } else {
        format!("the name {name} belongs to the UpstreamCluster {}", owner.name)
    };
    let path = match kind {
        ClaimKind::Name => "metadata.name",
        ClaimKind::ServerName => "spec.secureServing.serverNames",
        ClaimKind::VirtualIp => "spec.portcullis.virtualIPs",
    };
    Problem::new(path, message)
}

/// Lower is stronger. An object without a creation time counts as younger than any that has one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    is_new: bool,
    kind: ClaimKind,
    undated: bool,
    created: Option<&'a str>,
    name: &'a str,
    index: usize,
}

impl<'a> Rank<'a> {
    fn new(name: &str, kind: ClaimKind, claims: &'a Claims, index: usize) -> Self {
        let created = claims.creation_timestamp.as_deref();
        let is_new = !claims.held.iter().any(|held| held == name);
        Self { is_new, kind, undated: created.is_none(), created, name: &claims.name, index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(name: &str, created: Option<&str>, server_names: &[&str]) -> Claims {
        let mut names = vec![(name.to_owned(), ClaimKind::Name)];
        names.extend(server_names.iter().map(|name| ((*name).to_owned(), ClaimKind::ServerName)));
        Claims { name: name.to_owned(), creation_timestamp: created.map(str::to_owned), names, held: Vec::new() }
    }

    fn holding(claims: Claims, held: &str) -> Claims {
        Claims { held: vec![held.to_owned()], ..claims }
    }

    /// Which objects lose which names.
    fn losers(claims: &[Claims]) -> Vec<(usize, String)> {
        let lost = conflicts(&claims.iter().collect::<Vec<_>>());
        let lost = lost.into_iter().enumerate();
        lost.flat_map(|(index, lost)| lost.into_iter().map(move |lost| (index, lost.name))).collect()
    }

    fn lost(index: usize, name: &str) -> Vec<(usize, String)> {
        vec![(index, name.to_owned())]
    }

    #[test]
    fn a_name_has_one_owner() {
        let (old, new) = (Some("2024-01-01T00:00:00Z"), Some("2025-01-01T00:00:00Z"));
        assert_eq!(losers(&[claims("a", None, &[]), claims("b", None, &["x"])]), []);
        let rows = [
            ([claims("b", old, &["a"]), claims("a", new, &[])], lost(0, "a"), "metadata.name before serverNames"),
            ([claims("a", new, &["x", "y"]), claims("b", old, &["x"])], lost(0, "x"), "the older one"),
            ([claims("a", None, &["x"]), claims("b", old, &["x"])], lost(0, "x"), "a date before none"),
            ([claims("b", old, &["x"]), claims("a", old, &["x"])], lost(0, "x"), "then by name"),
            ([claims("a", None, &[]), claims("a", None, &[])], lost(1, "a"), "then the first"),
            ([claims("a", old, &["x"]), holding(claims("b", new, &["x"]), "x")], lost(0, "x"), "whoever had it"),
            ([claims("a", old, &[]), holding(claims("b", new, &["a"]), "a")], lost(0, "a"), "whatever comes later"),
            (
                [holding(claims("a", new, &["x"]), "x"), holding(claims("b", old, &["x"]), "x")],
                lost(0, "x"),
                "of two who had it the older one",
            ),
            ([claims("a", old, &["x"]), holding(claims("b", new, &[]), "x")], vec![], "what is held and not claimed"),
        ];
        for (objects, wanted, why) in rows {
            assert_eq!(losers(&objects), wanted, "{why}");
        }
        let told = conflicts(&[&claims("a", None, &[]), &claims("b", None, &["a"])]);
        let problem = Problem::new("spec.secureServing.serverNames", "the name a belongs to the UpstreamCluster a");
        assert_eq!(told[1][0].problem, problem);
    }
}

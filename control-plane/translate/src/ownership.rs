use std::collections::BTreeMap;

use portcullis_api::{ClaimKind, Claims, Problem};

/// For each object, why it may not be served: another one owns a name that it claims.
///
/// A name goes to `metadata.name` before `serverNames`, then to the older object, then by name, then to the one that was
/// read first. Whether the owner itself is served does not matter: a typo in it must not hand its clients to somebody
/// else.
pub(crate) fn conflicts(claims: &[&Claims]) -> Vec<Option<Problem>> {
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ranks: BTreeMap<&str, Rank<'_>> = BTreeMap::new();
    for (index, claim) in claims.iter().copied().enumerate() {
        for (name, kind) in &claim.names {
            let rank = Rank::new(*kind, claim, index);
            if ranks.get(name.as_str()).is_none_or(|best| rank < *best) {
                owners.insert(name, index);
                ranks.insert(name, rank);
            }
        }
    }
    let conflict = |(index, claim): (usize, &&Claims)| {
        claim.names.iter().find_map(|(name, kind)| {
            let owner = owners.get(name.as_str()).filter(|owner| **owner != index)?;
            let owner = claims.get(*owner)?;
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
            Some(Problem::new(path, message))
        })
    };
    claims.iter().enumerate().map(conflict).collect()
}

/// Lower is stronger. An object without a creation time counts as younger than any that has one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    kind: ClaimKind,
    undated: bool,
    created: Option<&'a str>,
    name: &'a str,
    index: usize,
}

impl<'a> Rank<'a> {
    fn new(kind: ClaimKind, claims: &'a Claims, index: usize) -> Self {
        let created = claims.creation_timestamp.as_deref();
        Self { kind, undated: created.is_none(), created, name: &claims.name, index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(name: &str, created: Option<&str>, server_names: &[&str]) -> Claims {
        let mut names = vec![(name.to_owned(), ClaimKind::Name)];
        names.extend(server_names.iter().map(|name| ((*name).to_owned(), ClaimKind::ServerName)));
        Claims { name: name.to_owned(), creation_timestamp: created.map(str::to_owned), names }
    }

    fn losers(claims: &[Claims]) -> Vec<usize> {
        conflicts(&claims.iter().collect::<Vec<_>>())
            .iter()
            .enumerate()
            .filter(|(_, lost)| lost.is_some())
            .map(|(index, _)| index)
            .collect()
    }

    #[test]
    fn a_name_has_one_owner() {
        let (old, new) = (Some("2024-01-01T00:00:00Z"), Some("2025-01-01T00:00:00Z"));
        assert_eq!(losers(&[claims("a", None, &[]), claims("b", None, &["x"])]), [0_usize; 0]);
        assert_eq!(losers(&[claims("b", old, &["a"]), claims("a", new, &[])]), [0], "metadata.name before serverNames");
        assert_eq!(losers(&[claims("a", new, &["x"]), claims("b", old, &["x"])]), [0], "the older one");
        assert_eq!(losers(&[claims("a", None, &["x"]), claims("b", old, &["x"])]), [0], "a date before none");
        assert_eq!(losers(&[claims("b", old, &["x"]), claims("a", old, &["x"])]), [0], "then by name");
        assert_eq!(losers(&[claims("a", None, &[]), claims("a", None, &[])]), [1], "then the first");
        let told = conflicts(&[&claims("a", None, &[]), &claims("b", None, &["a"])]);
        assert_eq!(
            told[1],
            Some(Problem::new("spec.secureServing.serverNames", "the name a belongs to the UpstreamCluster a"))
        );
    }
}

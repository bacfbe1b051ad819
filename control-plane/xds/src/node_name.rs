//! Names of nodes. Whatever is kept of a node is kept under its name, which says whose it is: a certificate of one owner gives no node of
//! another one's.

use crate::membership::Membership;

/// The character between an owner and an id.
const MARK: char = '/';
/// The text before the Gateways of a node. No instance has such a name.
const GATEWAY: &str = "gateway:";

/// The name of the node of this id. Of one that belongs to no instance and no Gateway it is the id, after a `/` if it has one; else the
/// names that its certificate has are before it, as in `team-a/envoy-0` and `gateway:infra/edge/envoy-0`.
pub(crate) fn node_name(membership: &Membership, id: &str) -> String {
    let (word, owners) = match membership {
        Membership::Free | Membership::Local => {
            return if id.contains(MARK) { format!("{MARK}{id}") } else { id.to_owned() };
        }
        Membership::Instances(names) => ("", names),
        Membership::Bound(names) => (GATEWAY, names),
    };
    let all: Vec<&str> = owners.iter().map(String::as_str).collect();
    let all = if all.is_empty() { "-".to_owned() } else { all.join("+") };
    format!("{word}{all}{MARK}{id}")
}

/// The owner in a node's name: the instance, or the namespace of its Gateway; `None` of one that belongs to neither. Of a certificate with
/// several instances it is all of them.
pub fn node_owner(name: &str) -> Option<&str> {
    name.split_once(MARK).map(|(owner, _)| owner).filter(|owner| !owner.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn node_has_a_name_of_its_own_for_each_owner() {
        let names = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let instances = |all: &[&str]| Membership::Instances(names(all));
        let gateways = |all: &[&str]| Membership::Bound(names(all));
        let table = [
            (Membership::Free, "envoy-0", "envoy-0", None),
            (Membership::Local, "envoy-0", "envoy-0", None),
            (Membership::Free, "a/envoy-0", "/a/envoy-0", None),
            (Membership::Free, "/envoy-0", "//envoy-0", None),
            (instances(&["a"]), "envoy-0", "a/envoy-0", Some("a")),
            (instances(&["a"]), "b/envoy-0", "a/b/envoy-0", Some("a")),
            (instances(&["a", "b"]), "envoy-0", "a+b/envoy-0", Some("a+b")),
            (instances(&[]), "envoy-0", "-/envoy-0", Some("-")),
            (gateways(&["a/b"]), "envoy-0", "gateway:a/b/envoy-0", Some("gateway:a")),
            (gateways(&[]), "envoy-0", "gateway:-/envoy-0", Some("gateway:-")),
        ];
        let mut known: BTreeMap<String, &Membership> = BTreeMap::new();
        for (membership, id, name, owner) in &table {
            assert_eq!(node_name(membership, id), *name, "{membership:?} {id}");
            assert_eq!(node_owner(name), *owner, "{name}");
            let other = known.insert((*name).to_owned(), membership);
            assert!(other.is_none_or(|other| *other == Membership::Free), "{membership:?} {other:?}");
        }
    }
}

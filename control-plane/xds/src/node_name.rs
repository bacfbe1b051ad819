//! Names of nodes. Whatever is kept of a node is kept under its name, which says whose it is: a certificate of one owner gives no node of
//! another one's.

use std::collections::BTreeSet;

use crate::membership::Membership;

/// The character between an owner and an id.
const MARK: char = '/';
/// The text before the Gateways of a node. No instance has such a name.
const GATEWAY: &str = "gateway:";
/// The character between several names of owners.
const AND: char = '+';
/// The owner of all nodes whose certificates name several instances: no combination of names is an owner of its own.
const SEVERAL: &str = "+";
/// The same of Gateways of several namespaces.
const SEVERAL_NAMESPACES: &str = "gateway:+";
/// The owner of nodes whose certificates name no instance that can be.
const INVALID: &str = "-";

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
    let all = if all.is_empty() { INVALID.to_owned() } else { all.join(&AND.to_string()) };
    format!("{word}{all}{MARK}{id}")
}

/// The owner in a node's name: the instance, or the namespace of its Gateway; `None` of one that belongs to neither. Certificates that
/// name several instances have one owner together, and so have those with Gateways of several namespaces.
pub fn node_owner(name: &str) -> Option<&str> {
    let (owner, rest) = name.split_once(MARK).filter(|(owner, _)| !owner.is_empty())?;
    let (has_several, several) = match owner.strip_prefix(GATEWAY) {
        Some(INVALID) => (false, SEVERAL_NAMESPACES),
        Some(namespace) => (other_namespaces(rest).any(|other| other != namespace), SEVERAL_NAMESPACES),
        None => (owner.contains(AND), SEVERAL),
    };
    Some(if has_several { several } else { owner })
}

/// The namespace of the Gateway of a node with that name; `None` of one that is no Gateway's. Nodes whose certificates have Gateways of
/// several namespaces, or none that can be, have a name that no namespace has.
pub fn gateway_namespace(name: &str) -> Option<&str> {
    node_owner(name)?.strip_prefix(GATEWAY)
}

/// Whether a node of that name is an Envoy of a Gateway.
pub(crate) fn is_of_gateway(name: &str) -> bool {
    gateway_namespace(name).is_some()
}

/// The owner of the nodes of a certificate that names these instances.
pub(crate) fn owner_of_instances(names: &BTreeSet<String>) -> &str {
    let mut all = names.iter();
    match (all.next(), all.next()) {
        (None, _) => INVALID,
        (Some(one), None) => one,
        (Some(_), Some(_)) => SEVERAL,
    }
}

/// The namespaces of Gateways behind the first one, whose own name this text begins with. An id comes last, whatever is in it.
fn other_namespaces(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (gateway, behind) = rest.split_once(MARK)?;
        let (_, namespace) = gateway.split_once(AND)?;
        rest = behind;
        Some(namespace)
    })
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
            (Membership::Free, "gateway:a", "gateway:a", None),
            (Membership::Free, "gateway:a/b/envoy-0", "/gateway:a/b/envoy-0", None),
            (instances(&["a"]), "envoy-0", "a/envoy-0", Some("a")),
            (instances(&["a"]), "b/envoy-0", "a/b/envoy-0", Some("a")),
            (instances(&["a", "b"]), "envoy-0", "a+b/envoy-0", Some("+")),
            (instances(&["a", "b", "c"]), "x+y/z", "a+b+c/x+y/z", Some("+")),
            (instances(&["a"]), "x+y/z", "a/x+y/z", Some("a")),
            (instances(&[]), "envoy-0", "-/envoy-0", Some("-")),
            (gateways(&["a/b"]), "envoy-0", "gateway:a/b/envoy-0", Some("gateway:a")),
            (gateways(&["a/b"]), "x+y/z+w/v", "gateway:a/b/x+y/z+w/v", Some("gateway:a")),
            (gateways(&["a/b", "a/c"]), "x+y/z", "gateway:a/b+a/c/x+y/z", Some("gateway:a")),
            (gateways(&["a/b", "a/c", "d/e"]), "x", "gateway:a/b+a/c+d/e/x", Some("gateway:+")),
            (gateways(&["a/b", "d/e"]), "x", "gateway:a/b+d/e/x", Some("gateway:+")),
            (gateways(&[]), "envoy-0", "gateway:-/envoy-0", Some("gateway:-")),
            (gateways(&[]), "x+y/z", "gateway:-/x+y/z", Some("gateway:-")),
        ];
        let mut known: BTreeMap<String, &Membership> = BTreeMap::new();
        for (membership, id, name, owner) in &table {
            assert_eq!(node_name(membership, id), *name, "{membership:?} {id}");
            assert_eq!(node_owner(name), *owner, "{name}");
            assert_eq!(is_of_gateway(name), matches!(membership, Membership::Bound(_)), "{name}");
            let namespace = owner.and_then(|owner| owner.strip_prefix("gateway:"));
            assert_eq!(gateway_namespace(name), namespace, "{name}");
            if let Membership::Instances(names) = membership {
                assert_eq!(Some(owner_of_instances(names)), *owner, "{name}");
            }
            let other = known.insert((*name).to_owned(), membership);
            assert!(other.is_none_or(|other| *other == Membership::Free), "{membership:?} {other:?}");
        }
    }
}

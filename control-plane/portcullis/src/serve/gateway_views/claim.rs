use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use portcullis_attach::{HostPattern, ObjectName};
use portcullis_filter_config::{NODE_GATEWAY, NODE_GATEWAY_ADDRESSES};
use portcullis_xds::{GATEWAY_DOMAIN, Membership, NodeInfo, Unserved};

/// Most Envoys of Gateways that are remembered. One beyond that is served if its Gateway is.
const MAX_CLAIMS: usize = 4_096;
/// Most addresses of one Envoy that are read.
const MAX_ADDRESSES: usize = 16;

/// The Envoys that belong to Gateways: for each Gateway their node ids, and the addresses by which clients reach them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct GatewayClaims(BTreeMap<ObjectName, BTreeMap<String, BTreeSet<IpAddr>>>);

impl GatewayClaims {
    /// Remembers an Envoy. Returns whether something is new.
    pub(in super::super) fn add(&mut self, gateway: &ObjectName, node: &NodeInfo) -> bool {
        let addresses = node.metadata.get(NODE_GATEWAY_ADDRESSES).map(|text| addresses(text)).unwrap_or_default();
        let is_full = self.0.values().map(BTreeMap::len).sum::<usize>() >= MAX_CLAIMS;
        let known = self.0.get(gateway).and_then(|nodes| nodes.get(&node.id));
        if known == Some(&addresses) || (known.is_none() && is_full) {
            return false;
        }
        self.0.entry(gateway.clone()).or_default().insert(node.id.clone(), addresses);
        true
    }

    /// The Gateways that some Envoy belongs to.
    pub(in super::super) fn gateways(&self) -> BTreeSet<ObjectName> {
        self.0.keys().cloned().collect()
    }

    /// The addresses of an Envoy of a Gateway.
    pub(super) fn addresses(&self, gateway: &ObjectName, node: &str) -> impl Iterator<Item = IpAddr> {
        self.0.get(gateway).and_then(|nodes| nodes.get(node)).into_iter().flatten().copied()
    }
}

/// Addresses by which clients may reach an Envoy; others are left out.
fn addresses(text: &str) -> BTreeSet<IpAddr> {
    let read = text.split(',').filter_map(|one| one.trim().parse::<IpAddr>().ok());
    read.filter(|ip| !ip.is_unspecified()).take(MAX_ADDRESSES).collect()
}

/// The Gateway that a node belongs to, if it belongs to one. Its bootstrap says which, and its certificate that it may: a process of
/// this machine may be any.
pub(in super::super) fn claimed(node: &NodeInfo) -> Result<Option<ObjectName>, Unserved> {
    let foreign = |why: &str| Err(Unserved::Foreign(why.to_owned()));
    let named = match (node.metadata.get(NODE_GATEWAY), &node.membership) {
        (None, Membership::Free | Membership::Local) => return Ok(None),
        (None, Membership::Bound(_)) => {
            return foreign(
                "its certificate is that of a Gateway's Envoy, and its bootstrap names no Gateway (--gateway)",
            );
        }
        (Some(named), Membership::Local) => named,
        (Some(named), Membership::Bound(gateways)) if gateways.contains(named) => named,
        (Some(_), Membership::Free | Membership::Bound(_)) => {
            return foreign(&format!("its certificate does not name its Gateway, as NAME.NAMESPACE.{GATEWAY_DOMAIN}"));
        }
    };
    match gateway_name(named) {
        Some(gateway) => Ok(Some(gateway)),
        None => foreign("the Gateway of its bootstrap is no NAMESPACE/NAME"),
    }
}

/// Reads `NAMESPACE/NAME`.
pub(crate) fn gateway_name(text: &str) -> Option<ObjectName> {
    let (namespace, name) = text.split_once('/')?;
    let is_name = |text: &str| HostPattern::parse(text) == Some(HostPattern::Exact(text.to_owned()));
    (is_name(namespace) && !namespace.contains('.') && is_name(name)).then(|| ObjectName::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(gateway: Option<&str>, membership: Membership) -> NodeInfo {
        let metadata = gateway.map(|gateway| (NODE_GATEWAY.to_owned(), gateway.to_owned()));
        NodeInfo { id: "n".to_owned(), metadata: metadata.into_iter().collect(), membership, envoy: None }
    }

    #[test]
    fn node_belongs_to_the_gateway_that_its_certificate_names() {
        let bound = || Membership::Bound(["infra/edge".to_owned()].into());
        let edge = ObjectName::new("infra", "edge");
        for (gateway, membership, expected) in [
            (None, Membership::Free, Ok(None)),
            (None, Membership::Local, Ok(None)),
            (None, bound(), Err("names no Gateway")),
            (None, Membership::Bound([].into()), Err("names no Gateway")),
            (Some("infra/edge"), bound(), Ok(Some(edge.clone()))),
            (Some("infra/edge"), Membership::Local, Ok(Some(edge))),
            (Some("infra/edge"), Membership::Free, Err("does not name its Gateway")),
            (Some("infra/other"), bound(), Err("does not name its Gateway")),
            (Some("infra/edge"), Membership::Bound([].into()), Err("does not name its Gateway")),
            (Some("edge"), Membership::Local, Err("no NAMESPACE/NAME")),
            (Some("a/b/c"), Membership::Local, Err("no NAMESPACE/NAME")),
            (Some("a.b/c"), Membership::Local, Err("no NAMESPACE/NAME")),
            (Some("a/*"), Membership::Local, Err("no NAMESPACE/NAME")),
            (Some("A/b"), Membership::Local, Err("no NAMESPACE/NAME")),
        ] {
            let found = claimed(&node(gateway, membership.clone()));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{gateway:?} {membership:?}"),
                (Err(Unserved::Foreign(why)), Err(part)) => assert!(why.contains(part), "{gateway:?}: {why}"),
                (found, _) => panic!("{gateway:?} {membership:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn claims_are_bounded_and_hold_readable_addresses() {
        let (gateway, mut claims) = (ObjectName::new("infra", "edge"), GatewayClaims::default());
        let mut one = node(None, Membership::Local);
        one.metadata.insert(NODE_GATEWAY_ADDRESSES.to_owned(), "192.0.2.1, ::1,x,0.0.0.0".to_owned());
        assert!(claims.add(&gateway, &one) && !claims.add(&gateway, &one));
        let found: Vec<String> = claims.addresses(&gateway, "n").map(|ip| ip.to_string()).collect();
        assert_eq!(found, ["192.0.2.1", "::1"]);
        for number in 1..MAX_CLAIMS {
            one.id = number.to_string();
            assert!(claims.add(&gateway, &one));
        }
        one.id = "more".to_owned();
        assert!(!claims.add(&ObjectName::new("infra", "other"), &one));
        assert_eq!(claims.gateways(), [gateway].into());
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use portcullis_attach::{HostPattern, ObjectName};
use portcullis_filter_config::{NODE_GATEWAY, NODE_GATEWAY_ADDRESSES};
use portcullis_xds::{GATEWAY_DOMAIN, Membership, NodeInfo, Unserved};
use tokio::sync::watch;

/// Most addresses of one Envoy that are read.
const MAX_ADDRESSES: usize = 16;

/// The open streams of Envoys that belong to Gateways. Their number has the bounds of xDS ([`portcullis_xds::Limits`]): what is here
/// ends with the stream, so that no Envoy takes the place of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct GatewayClaims {
    next: u64,
    streams: BTreeMap<ObjectName, BTreeMap<u64, ClaimingStream>>,
}

/// A stream of an Envoy of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClaimingStream {
    /// The node's name, by which its progress is known.
    node: String,
    /// Those by which clients reach the Envoy.
    addresses: BTreeSet<IpAddr>,
}

/// Keeps a stream among the claims until it is dropped.
pub(in super::super) struct ClaimGuard {
    claims: watch::Sender<GatewayClaims>,
    gateway: ObjectName,
    stream: u64,
}

impl ClaimGuard {
    /// Remembers a stream. Receivers are woken if it is the first one of its Gateway: a view has to be made.
    pub(in super::super) fn open(claims: &watch::Sender<GatewayClaims>, gateway: ObjectName, node: &NodeInfo) -> Self {
        let mut stream = 0;
        claims.send_if_modified(|claims| {
            let is_first = !claims.streams.contains_key(&gateway);
            stream = claims.open(&gateway, node);
            is_first
        });
        Self { claims: claims.clone(), gateway, stream }
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.claims.send_if_modified(|claims| {
            claims.close(&self.gateway, self.stream);
            // A view without streams may stay until the next snapshot is made.
            false
        });
    }
}

impl GatewayClaims {
    fn open(&mut self, gateway: &ObjectName, node: &NodeInfo) -> u64 {
        self.next = self.next.wrapping_add(1);
        let text = node.metadata.get(NODE_GATEWAY_ADDRESSES).map(String::as_str).unwrap_or_default();
        let addresses = addresses(text, node.membership == Membership::Local);
        let stream = ClaimingStream { node: node.name(), addresses };
        self.streams.entry(gateway.clone()).or_default().insert(self.next, stream);
        self.next
    }

    fn close(&mut self, gateway: &ObjectName, stream: u64) {
        let Some(streams) = self.streams.get_mut(gateway) else { return };
        streams.remove(&stream);
        if streams.is_empty() {
            self.streams.remove(gateway);
        }
    }

    /// The Gateways that some Envoy belongs to.
    pub(in super::super) fn gateways(&self) -> BTreeSet<ObjectName> {
        self.streams.keys().cloned().collect()
    }

    /// The addresses of those Envoys of a Gateway whose name is as asked for.
    pub(super) fn addresses(&self, gateway: &ObjectName, is_meant: impl Fn(&str) -> bool) -> BTreeSet<IpAddr> {
        let streams = self.streams.get(gateway).into_iter().flat_map(BTreeMap::values);
        streams.filter(|one| is_meant(&one.node)).flat_map(|one| &one.addresses).copied().collect()
    }
}

/// Addresses by which clients may reach an Envoy; others are left out. An Envoy of another machine has no client at loopback.
fn addresses(text: &str, may_be_loopback: bool) -> BTreeSet<IpAddr> {
    let read = text.split(',').filter_map(|one| one.trim().parse::<IpAddr>().ok()).map(|ip| ip.to_canonical());
    let is_link_local = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_reachable = |ip: &IpAddr| {
        let is_special = ip.is_unspecified() || ip.is_multicast() || is_link_local(ip);
        !is_special && (may_be_loopback || !ip.is_loopback())
    };
    read.filter(is_reachable).take(MAX_ADDRESSES).collect()
}

/// The Gateway that a node belongs to, if it belongs to one. Its bootstrap says which, and its certificate that it may: a process of
/// this machine may be any.
pub(in super::super) fn claimed(node: &NodeInfo) -> Result<Option<ObjectName>, Unserved> {
    let foreign = |why: &str| Err(Unserved::Foreign(why.to_owned()));
    let named = match (node.metadata.get(NODE_GATEWAY), &node.membership) {
        (None, Membership::Free | Membership::Local | Membership::Instances(_)) => return Ok(None),
        (None, Membership::Bound(_)) => {
            return foreign(
                "its certificate is that of a Gateway's Envoy, and its bootstrap names no Gateway (--gateway)",
            );
        }
        (Some(named), Membership::Local) => named,
        (Some(named), Membership::Bound(gateways)) if gateways.contains(named) => named,
        (Some(_), Membership::Free | Membership::Bound(_) | Membership::Instances(_)) => {
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
    fn addresses_are_those_that_clients_may_reach() {
        let written = "192.0.2.1, ::1,x,0.0.0.0,::,169.254.1.1,fe80::1,224.0.0.1,ff02::1,::ffff:127.0.0.1,2001:db8::1,\
                       255.255.255.255";
        for (membership, name, expected) in [
            (Membership::Local, "n", &["127.0.0.1", "192.0.2.1", "::1", "2001:db8::1"][..]),
            (
                Membership::Bound(["infra/edge".to_owned()].into()),
                "gateway:infra/edge/n",
                &["192.0.2.1", "2001:db8::1"],
            ),
        ] {
            let (claims, gateway) = (watch::Sender::new(GatewayClaims::default()), ObjectName::new("infra", "edge"));
            let mut one = node(None, membership);
            one.metadata.insert(NODE_GATEWAY_ADDRESSES.to_owned(), written.to_owned());
            let _open = ClaimGuard::open(&claims, gateway.clone(), &one);
            let found = claims.borrow().addresses(&gateway, |node| node == name);
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
            assert!(claims.borrow().addresses(&gateway, |node| node != name).is_empty());
        }
    }

    #[test]
    fn claim_ends_with_the_last_stream_of_its_gateway() {
        let claims = watch::Sender::new(GatewayClaims::default());
        let mut changes = claims.subscribe();
        let mut is_woken = || {
            let is_woken = changes.has_changed().unwrap();
            changes.mark_unchanged();
            is_woken
        };
        let (edge, other) = (ObjectName::new("infra", "edge"), ObjectName::new("infra", "other"));
        let one = node(None, Membership::Local);
        let open = |gateway: &ObjectName| ClaimGuard::open(&claims, gateway.clone(), &one);
        let first = open(&edge);
        assert!(is_woken());
        let again = open(&edge);
        assert!(!is_woken(), "its view is there, or on its way");
        // Thousands of others take no place of a Gateway's Envoys.
        let mut crowd: Vec<ClaimGuard> = (0..5_000).map(|_| open(&other)).collect();
        assert!(is_woken());
        drop(first);
        assert_eq!(claims.borrow().gateways(), [edge.clone(), other.clone()].into(), "a reconnect overlaps");
        drop(again);
        assert_eq!(claims.borrow().gateways(), [other].into());
        assert!(!is_woken(), "nobody waits for the end of a view");
        crowd.clear();
        assert_eq!(claims.borrow().streams, BTreeMap::new());
        let _back = open(&edge);
        assert!(is_woken());
    }
}

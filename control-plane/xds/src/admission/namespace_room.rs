//! The parts of the Envoys of Gateways: those of each namespace, which are one tenant's, have a part of what all have, of connections and
//! of room for large messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::common_room::ByteRoom;
use crate::limits::Limits;
use crate::lock::lock;
use crate::membership::Membership;

/// The part of each namespace that has a connection.
#[derive(Default)]
pub(super) struct NamespaceParts {
    open: Mutex<BTreeMap<String, Arc<NamespacePart>>>,
    /// Connections of all of them.
    connections: Arc<AtomicUsize>,
}

/// The part of the Gateways of one namespace.
pub(super) struct NamespacePart {
    pub(super) receiving: ByteRoom,
    connections: AtomicUsize,
    most: usize,
    of_all: Arc<AtomicUsize>,
    most_of_all: usize,
}

impl NamespaceParts {
    /// The part that an Envoy shares with those of its Gateway's namespace; `None` if it belongs to no Gateway. Envoys whose certificates
    /// name Gateways of several namespaces, or none that can be, have one together.
    pub(super) fn get(&self, membership: &Membership, limits: &Limits) -> Option<Arc<NamespacePart>> {
        let Membership::Bound(gateways) = membership else { return None };
        let mut open = lock(&self.open);
        open.retain(|_, part| Arc::strong_count(part) > 1);
        let new = || NamespacePart {
            receiving: ByteRoom::new(limits.receiving_per_instance),
            connections: AtomicUsize::new(0),
            most: limits.connections_per_namespace,
            of_all: Arc::clone(&self.connections),
            most_of_all: limits.connections_of_gateways,
        };
        let part = open.entry(namespace(gateways).to_owned()).or_insert_with(|| Arc::new(new()));
        Some(Arc::clone(part))
    }
}

impl NamespacePart {
    /// Counts a connection. Returns whether there is room for it; it counts until it is ended all the same.
    pub(super) fn connect(&self) -> bool {
        let of_all = self.of_all.fetch_add(1, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Relaxed) < self.most && of_all < self.most_of_all
    }

    /// Counts a connection no more.
    pub(super) fn disconnect(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        self.of_all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The namespace of `NAMESPACE/NAME` of all; empty if it is not one.
fn namespace(gateways: &BTreeSet<String>) -> &str {
    let namespaces: BTreeSet<_> = gateways.iter().filter_map(|gateway| Some(gateway.split_once('/')?.0)).collect();
    match namespaces.first() {
        Some(only) if namespaces.len() == 1 => only,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envoys_of_the_gateways_of_a_namespace_share_a_part() {
        let (parts, limits) = (NamespaceParts::default(), Limits::default());
        let part = |gateways: &[&str]| {
            parts.get(&Membership::Bound(gateways.iter().map(|one| (*one).to_owned()).collect()), &limits).unwrap()
        };
        let [own, other, several, none] = [&["a/edge"][..], &["b/edge"], &["a/edge", "b/edge"], &[]].map(&part);
        assert!(Arc::ptr_eq(&own, &part(&["a/inner"])) && Arc::ptr_eq(&own, &part(&["a/edge", "a/inner"])));
        assert!(!Arc::ptr_eq(&own, &other) && !Arc::ptr_eq(&own, &several) && Arc::ptr_eq(&several, &none));
        drop((own, other, several, none));
        part(&["c/edge"]);
        assert_eq!(lock(&parts.open).len(), 1, "those that nobody has are forgotten");
        assert!(parts.get(&Membership::Free, &limits).is_none());
    }
}

//! Room for large messages of the Envoys of Gateways: those of each namespace, which are one tenant's, have a part of what all have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::common_room::ByteRoom;
use crate::lock::lock;
use crate::membership::Membership;

/// The room of each namespace that has a connection.
#[derive(Default)]
pub(super) struct NamespaceRooms(Mutex<BTreeMap<String, Arc<ByteRoom>>>);

impl NamespaceRooms {
    /// The room of so many bytes that an Envoy shares with those of its Gateway's namespace; `None` if it belongs to no Gateway. Envoys
    /// whose certificates name Gateways of several namespaces, or none that can be, have one together.
    pub(super) fn get(&self, membership: &Membership, bytes: usize) -> Option<Arc<ByteRoom>> {
        let Membership::Bound(gateways) = membership else { return None };
        let mut rooms = lock(&self.0);
        rooms.retain(|_, room| Arc::strong_count(room) > 1);
        let room = rooms.entry(namespace(gateways).to_owned()).or_insert_with(|| Arc::new(ByteRoom::new(bytes)));
        Some(Arc::clone(room))
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
    fn envoys_of_the_gateways_of_a_namespace_share_a_room() {
        let rooms = NamespaceRooms::default();
        let room = |gateways: &[&str]| {
            rooms.get(&Membership::Bound(gateways.iter().map(|one| (*one).to_owned()).collect()), 1 << 20).unwrap()
        };
        let [own, other, several, none] = [&["a/edge"][..], &["b/edge"], &["a/edge", "b/edge"], &[]].map(&room);
        assert!(Arc::ptr_eq(&own, &room(&["a/inner"])) && Arc::ptr_eq(&own, &room(&["a/edge", "a/inner"])));
        assert!(!Arc::ptr_eq(&own, &other) && !Arc::ptr_eq(&own, &several) && Arc::ptr_eq(&several, &none));
        drop((own, other, several, none));
        room(&["c/edge"]);
        assert_eq!(lock(&rooms.0).len(), 1, "those that nobody has are forgotten");
        assert!(rooms.get(&Membership::Free, 1).is_none());
    }
}

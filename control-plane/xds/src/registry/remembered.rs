//! The bounds of what is remembered of nodes that are not there.

use std::collections::BTreeMap;

use super::NodeStatus;
use crate::node_name::node_owner;

/// The number of rejected nodes that are remembered and belong to no instance and no Gateway, and of those of one owner.
pub(super) const MAX_REJECTED: Places = Places { of_none: 100, of_one: 20, of_all: 2_000 };

/// The same of disconnected nodes.
pub(super) const MAX_DISCONNECTED: Places = Places { of_none: 1_000, of_one: 100, of_all: 10_000 };

/// The number of nodes that are remembered.
pub(super) struct Places {
    /// Of those that belong to no instance and no Gateway.
    pub(super) of_none: usize,
    /// Of those of one owner, which displace only their like.
    pub(super) of_one: usize,
    /// Of those of all owners together; those beyond are not remembered.
    pub(super) of_all: usize,
}

impl Places {
    /// Makes a place for a node of that name. False if there is none.
    pub(super) fn make<K: Ord + Clone, V>(
        &self,
        known: &mut BTreeMap<K, V>,
        name: &str,
        name_of: impl Fn(&K) -> &str,
    ) -> bool {
        let owner = node_owner(name);
        let of_owner = || known.keys().filter(|key| node_owner(name_of(key)) == owner);
        let most = if owner.is_some() { self.of_one } else { self.of_none };
        if of_owner().count() >= most {
            let first = of_owner().next().cloned();
            return first.and_then(|first| known.remove(&first)).is_some();
        }
        owner.is_none() || known.keys().filter(|key| node_owner(name_of(key)).is_some()).count() < self.of_all
    }
}

/// Most refused resources and types that are remembered of a disconnected node.
const MAX_ENTRIES: usize = 16;
/// Most bytes of a reason, and of a version: that of a listener lists its parts.
const MAX_TEXT: usize = 256;

/// The state of a node whose stream has ended. A node refuses as much as it likes, and ten thousand may be remembered.
pub(super) fn disconnected(status: NodeStatus) -> NodeStatus {
    let (types, refused) = (status.types.into_iter(), status.refused.into_iter());
    let types = types.take(MAX_ENTRIES).map(|(type_url, mut one)| {
        one.nack.iter_mut().for_each(shorten);
        (type_url, one)
    });
    let refused = refused.take(MAX_ENTRIES).map(|mut one| {
        shorten(&mut one.message);
        shorten(&mut one.version);
        one
    });
    // Collected in place the list would keep its memory.
    let mut refused: Vec<_> = refused.collect();
    refused.shrink_to_fit();
    NodeStatus { connected: false, in_sync: false, types: types.collect(), refused, ..status }
}

fn shorten(text: &mut String) {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::TypeStatus;
    use crate::node::{Refused, View};

    #[test]
    fn refusals_of_a_disconnected_node_are_bounded() {
        let long = || "é".repeat(10_000);
        let refused = |number: usize| Refused {
            type_url: "t".to_owned(),
            name: format!("{number:05}"),
            version: long(),
            message: long(),
            owner: None,
            is_optional: false,
        };
        let one = |number: usize| (number.to_string(), TypeStatus { nack: Some(long()), ..TypeStatus::default() });
        let status = NodeStatus {
            id: "one".to_owned(),
            connected: true,
            types: (0..100).map(one).collect(),
            snapshot: String::new(),
            in_sync: true,
            refused: (0..10_000).map(refused).collect(),
            view: View(None),
        };
        let kept = disconnected(status);
        assert!(!kept.connected && !kept.in_sync);
        assert_eq!((kept.types.len(), kept.refused.len(), kept.refused[15].name.as_str()), (16, 16, "00015"));
        assert!(kept.refused.capacity() <= 16 && kept.refused[0].message.capacity() <= MAX_TEXT);
        let texts = kept.refused.iter().flat_map(|one| [&one.message, &one.version]);
        let mut texts = texts.chain(kept.types.values().filter_map(|one| one.nack.as_ref()));
        assert!(texts.all(|text| text.len() == MAX_TEXT));
    }
}

//! The owners of the processes that share a limit.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// Most guests that have parts of the limits of one cluster. Those beyond go by their local limits.
pub(crate) const MAX_GUESTS: usize = 100;
/// Most processes of one guest at a time, all of its nodes together.
pub(crate) const MAX_HOLDERS_OF_GUEST: usize = 64;

/// The name of a guest: an owner of processes that has a part of a limit beside the fleet, and may lie in its reports.
pub(crate) type GuestName = Arc<str>;

/// The rule that names the owner of a node by the node's name, the same for as long as a limiter is used. Without one all nodes are
/// of the fleet.
#[derive(Clone, Default)]
pub struct NodeOwners(Option<Arc<GuestOfNode>>);

type GuestOfNode = dyn Fn(&str) -> Option<String> + Send + Sync;

impl NodeOwners {
    /// The rule `guest_of`: the guest that a node of this name belongs to, `None` if it is one of the fleet.
    pub fn new(guest_of: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(guest_of)))
    }

    /// The guest that the node of this name belongs to; `None` if it is one of the fleet.
    pub fn guest_of(&self, node: &str) -> Option<String> {
        self.0.as_ref().and_then(|guest_of| guest_of(node))
    }
}

impl Debug for NodeOwners {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "NodeOwners" } else { "NodeOwners(none)" })
    }
}

use std::collections::BTreeMap;

use crate::{Refused, Snapshot, Standing, TypeStatus};

/// What may be asked of one node's conversation, whatever variant of the protocol it speaks.
pub(crate) trait NodeStream: Send {
    /// The node's id: empty before the first request.
    fn node(&self) -> &str;
    /// The version of the newest snapshot that the stream knows.
    fn snapshot_version(&self) -> &str;
    /// Whether all that the node subscribed to is acknowledged in the newest version.
    fn is_in_sync(&self) -> bool;
    /// Where each type stands.
    fn status(&self) -> BTreeMap<String, TypeStatus>;
    /// What the node refuses of the newest snapshot.
    fn refused(&self) -> Vec<Refused>;
    /// Where the node stands with one owner's resources in a snapshot; `None` if it holds none of them.
    fn standing(&self, snapshot: &Snapshot, owner: &str) -> Option<Standing>;
}

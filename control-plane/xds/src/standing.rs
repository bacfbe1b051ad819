use std::time::Instant;

/// A resource that a node refuses, as it stands in the newest snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The resource's type.
    pub type_url: String,
    /// The resource's name.
    pub name: String,
    /// The version that is refused. It is not sent again.
    pub version: String,
    /// What the node says about it.
    pub message: String,
    /// Whose it is, see [`crate::Resource::owned_by`].
    pub owner: Option<String>,
}

/// Where a node stands with one owner's resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has acknowledged all of them.
    Acknowledged,
    /// It has not, yet.
    Pending,
    /// It refuses at least one of them, and keeps what it had of it.
    Refused {
        /// What it says about the first one.
        message: String,
    },
}

impl Standing {
    /// Of two standings the one to tell: a refusal before what is pending.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (refused @ Self::Refused { .. }, _) | (_, refused @ Self::Refused { .. }) => refused,
            (Self::Acknowledged, Self::Acknowledged) => Self::Acknowledged,
            _ => Self::Pending,
        }
    }
}

/// A node whose streams are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedNode {
    /// The id that it tells.
    pub node: String,
    /// Who told it.
    pub by: String,
    /// Why it is refused.
    pub reason: String,
    /// How often.
    pub times: u64,
    /// Whether there is no view for it, so that it keeps its last configuration; else it may not be that node.
    pub is_frozen: bool,
    /// The last time.
    pub last: Instant,
}

use crate::holder::MemberHolder;
use crate::member::MemberName;

/// The owner of a gateway or a cluster, at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The one owner: it serves, and counts limits.
    pub holder: MemberHolder,
    /// The one that takes over as soon as it is ready.
    pub next: Option<MemberHolder>,
}

/// A gateway or cluster on its way from one owner to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandOver {
    /// The gateway or cluster.
    pub member: MemberName,
    /// Its owner until the other one is ready.
    pub from: MemberHolder,
    /// Its next owner.
    pub to: MemberHolder,
}

impl Ownership {
    /// The owner at the end of a hand-over, and the owner where there is none.
    pub fn settled(&self) -> &MemberHolder {
        self.next.as_ref().unwrap_or(&self.holder)
    }
}

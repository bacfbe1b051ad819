//! The owners of gateways and clusters: `Instance` objects and labels in, one owner for each out.
//!
//! [`settle`] is asked anew after every event, with its own last outcome. An owner is stable: it keeps what it selects, whichever
//! other instance selects that later. Without one the oldest instance that selects has it, then the first by name.
//!
//! A gateway or cluster passes from one owner to another without a moment in which it has none: [`Ownership::next`] prepares
//! while [`Ownership::holder`] goes on, until the caller says that the next one is ready. Exactly one is the holder at any time:
//! it counts limits.
//!
//! No I/O, no clock, no randomness; the order of objects makes no difference.

#[cfg(test)]
mod tests;

mod claim;
mod conflict;
mod holder;
mod judge;
mod member;
mod ownership;
mod reach;
mod settle;
mod spanning;
mod verdict;

pub use claim::{InstanceClaim, MAX_INSTANCES, Selection};
pub use conflict::{Conflict, Conflicts, MAX_CONFLICTS};
pub use holder::MemberHolder;
pub use judge::{InstanceFindings, JudgedInstance, judge_instances, labels_of, text_labels_of};
pub use member::{Entitlement, Member, MemberKind, MemberName};
pub use ownership::{HandOver, Ownership};
pub use reach::SeparateOwners;
pub use settle::{InstanceObjects, Settlement, settle};
pub use spanning::{SpanningTargets, common_holder};
pub use verdict::InstanceVerdict;

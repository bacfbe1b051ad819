//! Policies of their own in the document of an `UpstreamCluster`, so that everything behind sees one object, whichever way its fields
//! came. Which policy is in effect is decided elsewhere.
//!
//! - [`merge`]: the document with the policies.
//! - [`tighten`]: what a policy may do that is not of the object's owner; [`lower`] its limits, [`tighten_error`] why it may not.
//! - [`origin`]: the origin of fields, which is a member of the document's status that no source may bring.
//! - [`upstream_rules`]: the policies of a `KubernetesUpstream`.
//! - [`oversized`]: what is left of a policy that is too large.

mod lower;
mod merge;
mod origin;
mod oversized;
mod tighten;
mod tighten_error;
mod upstream_rules;

pub use merge::{behind_all_doors, behind_door, door_denials, has_fields, tightened, with_policies};
pub use origin::{FieldOrigin, origin_of, origins, refused_by_policies};
pub use oversized::oversized_policy;
pub use tighten::check_door_fields;
pub use tighten_error::TightenError;
pub use upstream_rules::{UpstreamPolicyError, check_upstream_policy, upstream_rules};

pub(crate) use merge::is_set;
pub(crate) use origin::{explain_origins, origins_of, tightening};
pub(crate) use oversized::is_oversized;

use std::sync::Arc;

use serde_json::Value;

use crate::kind::PolicyKind;

/// The part that a policy has in the outcome. Of a kind one policy decides at most, and one of each namespace tightens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyRole {
    /// Its fields are in the place of the object's own.
    Decides,
    /// It takes something from what holds without it: a limit is lower, or a request is denied. Nothing that it says permits
    /// anything.
    Tightens,
}

impl PolicyRole {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyRole::Decides => "decides",
            PolicyRole::Tightens => "tightens",
        }
    }
}

/// A policy that is in effect on an `UpstreamCluster` or a `KubernetesUpstream`, or on the requests that come by a door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyInEffect {
    /// The kind.
    pub kind: PolicyKind,
    /// Its namespace and name, with a slash between them.
    pub policy: String,
    /// `metadata.uid`, if the source gives one.
    pub uid: Option<String>,
    /// Its part.
    pub role: PolicyRole,
    /// The reason for which it is this one, in words.
    pub why: String,
    /// Its fields, the same for all places where it is in effect; or why they cannot be used. Then the object is refused: a mistake
    /// must not let the object's own fields hold.
    pub fields: Result<Arc<Value>, String>,
}

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Timestamp;
use crate::kind::PolicyKind;

/// One thing that is true of an object, or is not, as Kubernetes writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether it is so.
    pub status: State,
    /// Why, in one word for programs.
    #[serde(default)]
    pub reason: String,
    /// Why, for people. Bounded, and without secrets.
    #[serde(default)]
    pub message: String,
    /// When `status` changed last.
    #[serde(default)]
    pub last_transition_time: Timestamp,
    /// The `metadata.generation` that it is about; an object of a file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The types of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConditionType {
    /// The object is valid and owns its names.
    Accepted,
    /// Every gateway that is connected has acknowledged what the object says.
    Programmed,
    /// Every gateway that reports has a healthy endpoint, for each policy.
    Ready,
    /// The servers that the object has discovered are those that the source names now. Only objects that discover servers have it.
    ServersDiscovered,
    /// Gateways have judged requests otherwise by what only reports. Only objects with a policy or an alternative in shadow have it.
    ShadowDiffers,
    /// The keys of tokens are those that servers and issuers show now. Only objects whose keys the control plane reads have it.
    TokenKeysCurrent,
    /// Every gateway that reports has its part of the object's limits of all gateways. Only objects with such limits have it.
    LimitsShared,
    /// The object selects what belongs to another one. Only an `Instance` has it.
    Conflicted,
    /// A `DispatchPolicy` is attached to the object and in effect.
    #[serde(rename = "portcullis.dev/DispatchPolicyAffected")]
    DispatchPolicyAffected,
    /// A `FlowControlPolicy` is.
    #[serde(rename = "portcullis.dev/FlowControlPolicyAffected")]
    FlowControlPolicyAffected,
    /// An `UpstreamIdentityPolicy` is.
    #[serde(rename = "portcullis.dev/UpstreamIdentityPolicyAffected")]
    UpstreamIdentityPolicyAffected,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be known.
    Unknown,
}

/// A condition without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    kind: ConditionType,
    pub(super) status: State,
    pub(super) reason: String,
    message: String,
}

impl Finding {
    pub(super) fn new(kind: ConditionType, status: State, reason: &str, message: impl Into<String>) -> Self {
        Self { kind, status, reason: reason.to_owned(), message: super::sanitize(&message.into()) }
    }

    /// The same with more words at the end of its message.
    pub(super) fn with(self, more: &str) -> Self {
        if more.is_empty() {
            self
        } else {
            Self { message: super::sanitize(&format!("{}{more}", self.message)), ..self }
        }
    }

    /// The condition at `now`. Its time is that of the condition before if `status` has not changed since.
    pub(super) fn stamp(self, generation: Option<i64>, before: &[Condition], now: &Timestamp) -> Condition {
        let before = before.iter().find(|one| one.kind == self.kind && one.status == self.status);
        Condition {
            kind: self.kind,
            status: self.status,
            reason: self.reason,
            message: self.message,
            last_transition_time: before.map_or_else(|| now.clone(), |one| one.last_transition_time.clone()),
            observed_generation: generation,
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConditionType::Accepted => "Accepted",
            ConditionType::Programmed => "Programmed",
            ConditionType::Ready => "Ready",
            ConditionType::ServersDiscovered => "ServersDiscovered",
            ConditionType::ShadowDiffers => "ShadowDiffers",
            ConditionType::TokenKeysCurrent => "TokenKeysCurrent",
            ConditionType::LimitsShared => "LimitsShared",
            ConditionType::Conflicted => "Conflicted",
            ConditionType::DispatchPolicyAffected => PolicyKind::Dispatch.affected(),
            ConditionType::FlowControlPolicyAffected => PolicyKind::FlowControl.affected(),
            ConditionType::UpstreamIdentityPolicyAffected => PolicyKind::UpstreamIdentity.affected(),
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::True => "True",
            State::False => "False",
            State::Unknown => "Unknown",
        })
    }
}

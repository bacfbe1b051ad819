use portcullis_filter_config::AccessScope;
use serde::{Serialize, Serializer};

use super::example::ExampleRequest;
use super::side::PolicyEffect;

/// The part of a configuration that decides a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Decider {
    /// An entry of a deny list, by its number from 0.
    #[serde(rename_all = "camelCase")]
    Denied {
        #[serde(serialize_with = "scope_word")]
        scope: AccessScope,
        entry: usize,
        message: String,
    },
    /// No entry of an allow list lets it in.
    #[serde(rename_all = "camelCase")]
    NotLetIn {
        #[serde(serialize_with = "scope_word")]
        scope: AccessScope,
    },
    /// Access lists let it in; a policy decides.
    LetIn,
    #[serde(rename_all = "camelCase")]
    Policy {
        policy: usize,
        rule: usize,
        effect: PolicyEffect,
    },
    NoPolicy,
}

fn scope_word<S: Serializer>(scope: &AccessScope, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(scope.as_str())
}

/// Requests that are judged differently, and one of them.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub(super) then: Decider,
    pub(super) now: Decider,
    pub(super) example: ExampleRequest,
}

/// Requests of which it is not known whether there are any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Uncompared {
    pub(super) then: Decider,
    pub(super) now: Decider,
}

impl Decider {
    /// Whether a request meets the same. The numbers of entries and policies are only where it is written.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Decider::Denied { scope, message, .. },
                Decider::Denied { scope: other_scope, message: other_message, .. },
            ) => (scope, message) == (other_scope, other_message),
            (Decider::Policy { effect, .. }, Decider::Policy { effect: other, .. }) => effect == other,
            _ => self == other,
        }
    }
}

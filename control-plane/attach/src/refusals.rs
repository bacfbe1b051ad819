//! Accepted routes of which Envoys refuse a resource, in their conditions.

use crate::condition::ConditionVerdict;
use crate::name::ObjectName;
use crate::verdict::{ParentVerdict, RouteVerdict};

impl RouteVerdict {
    /// The Gateway of one of its parents.
    pub fn parent_gateway(&self, parent: &ParentVerdict) -> ObjectName {
        let namespace = parent.parent.namespace.as_deref().unwrap_or(&self.name.namespace);
        ObjectName::new(namespace, &parent.parent.name)
    }

    /// The verdict with refusals in the messages of the parents that accept it. They remain accepted: what the Envoys took before is
    /// served. `refusal` is about the route at a Gateway.
    #[must_use]
    pub fn with_refusals(&self, refusal: impl Fn(&ObjectName) -> Option<String>) -> Self {
        let parents = self.parents.iter().map(|parent| match refusal(&self.parent_gateway(parent)) {
            Some(refusal) => refused_at(parent, &refusal),
            None => parent.clone(),
        });
        Self { parents: parents.collect(), ..self.clone() }
    }
}

fn refused_at(parent: &ParentVerdict, refusal: &str) -> ParentVerdict {
    let edited = |condition: &ConditionVerdict| match condition {
        accepted if accepted.kind == "Accepted" && accepted.status => {
            let before = Some(accepted.message.as_str()).filter(|text| !text.is_empty());
            let both: Vec<&str> = before.into_iter().chain([refusal]).collect();
            ConditionVerdict::holds("Accepted", accepted.reason, both.join("; "))
        }
        other => other.clone(),
    };
    ParentVerdict { conditions: parent.conditions.iter().map(edited).collect(), ..parent.clone() }
}

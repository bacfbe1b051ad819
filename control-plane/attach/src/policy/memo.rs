//! Outcomes that are remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::parts::{PartHolders, PolicyPart, Settled};
use super::site::PolicyPlace;
use super::{PolicyObject, cluster, upstream};
use crate::name::ObjectName;

/// Outcomes of an earlier step: an object whose document and policies are what they were is not checked again. They make no difference
/// to what comes out.
#[derive(Debug, Default)]
pub struct PolicyMemo {
    by_place: BTreeMap<PolicyPlace, RememberedPolicies>,
}

#[derive(Debug)]
struct RememberedPolicies {
    own: Option<Arc<Value>>,
    policies: Vec<(PolicyPart, PolicyObject)>,
    settled: Settled,
}

impl PolicyMemo {
    /// The outcome for the policies of a cluster, of before or anew.
    pub(super) fn of_cluster(&mut self, name: &str, policies: &PartHolders<'_>, own: Option<&Arc<Value>>) -> Settled {
        self.of(PolicyPlace::Cluster(name.to_owned()), policies, own, |own| cluster::settle(policies, name, own))
    }

    /// The outcome for the policies of an upstream.
    pub(super) fn of_upstream(
        &mut self,
        name: &ObjectName,
        policies: &PartHolders<'_>,
        own: Option<&Arc<Value>>,
    ) -> Settled {
        self.of(PolicyPlace::Upstream(name.clone()), policies, own, |own| upstream::settle(policies, name, own))
    }

    fn of(
        &mut self,
        place: PolicyPlace,
        policies: &PartHolders<'_>,
        own: Option<&Arc<Value>>,
        settle: impl FnOnce(Option<&Arc<Value>>) -> Settled,
    ) -> Settled {
        if let Some(known) = self.by_place.get(&place).filter(|known| known.is_of(policies, own)) {
            return known.settled.clone();
        }
        let settled = settle(own);
        let remembered = RememberedPolicies {
            own: own.cloned(),
            policies: policies.by_part.iter().map(|(part, policy)| (part.clone(), (*policy).clone())).collect(),
            settled: settled.clone(),
        };
        self.by_place.insert(place, remembered);
        settled
    }

    /// Forgets objects without a policy.
    pub(super) fn keep(&mut self, has_policy: impl Fn(&PolicyPlace) -> bool) {
        self.by_place.retain(|place, _| has_policy(place));
    }
}

impl RememberedPolicies {
    fn is_of(&self, policies: &PartHolders<'_>, own: Option<&Arc<Value>>) -> bool {
        let same_document = match (&self.own, own) {
            (Some(known), Some(own)) => Arc::ptr_eq(known, own),
            (known, own) => known.is_none() && own.is_none(),
        };
        let known = self.policies.iter().map(|(part, policy)| (part, policy));
        same_document && known.eq(policies.by_part.iter().map(|(part, policy)| (part, *policy)))
    }
}

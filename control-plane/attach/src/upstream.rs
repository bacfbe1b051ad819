//! `KubernetesUpstreams`: those that there is room for, and whether routes may lead there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use portcullis_api::upstream_key;
use portcullis_gateway_api::ObjectMeta;

use crate::condition::{ConditionVerdict, Rejection};
use crate::input::{GatewayObjects, Inventory, UpstreamObject, UpstreamState};
use crate::name::{CreationOrder, ObjectName};
use crate::policy::affected;

/// The most of one namespace: each has pools with health checks of their own in each Envoy whose routes lead there, and its references
/// are read again and again.
const MAX_OF_NAMESPACE: usize = 16;
/// The most of all.
const MAX_IN_ALL: usize = 512;

/// The verdict about a `KubernetesUpstream`. Whether a Gateway serves it is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamVerdict {
    /// Its name.
    pub name: ObjectName,
    /// The version that it is about.
    pub generation: Option<i64>,
    /// Its conditions.
    pub conditions: Vec<ConditionVerdict>,
}

/// The judged upstreams, by name.
pub(crate) struct JudgedUpstreams(BTreeMap<ObjectName, JudgedUpstream>);

struct JudgedUpstream {
    generation: Option<i64>,
    affected: Vec<ConditionVerdict>,
    refusal: Option<Rejection>,
    unresolved: Option<Rejection>,
}

/// The upstreams that there is room for.
pub(crate) fn within_bounds(objects: &GatewayObjects) -> Vec<&UpstreamObject> {
    let within = upstreams_within_bounds(objects.upstreams.iter().map(|one| &one.metadata));
    objects.upstreams.iter().filter(|one| within.contains(&ObjectName::of(&one.metadata))).collect()
}

/// The names of the upstreams that there is room for: the oldest ones, so that a new one takes nothing from them. Of others nothing needs
/// to be looked at: they are refused as they are.
pub fn upstreams_within_bounds<'a>(upstreams: impl Iterator<Item = &'a ObjectMeta>) -> BTreeSet<ObjectName> {
    let mut all: Vec<&ObjectMeta> = upstreams.collect();
    all.sort_by_key(|one| CreationOrder::of(one));
    let mut of_namespaces: HashMap<&str, usize> = HashMap::new();
    let mut within = BTreeSet::new();
    for one in all {
        let of_namespace = of_namespaces.entry(&one.namespace).or_default();
        if *of_namespace < MAX_OF_NAMESPACE && within.len() < MAX_IN_ALL {
            *of_namespace += 1;
            within.insert(ObjectName::of(one));
        }
    }
    within
}

impl JudgedUpstreams {
    pub(crate) fn of(objects: &GatewayObjects, inventory: &Inventory) -> Self {
        let within = upstreams_within_bounds(objects.upstreams.iter().map(|one| &one.metadata));
        let judge = |one: &UpstreamObject| {
            let name = ObjectName::of(&one.metadata);
            let judged = judge(&name, one.metadata.generation, within.contains(&name), inventory);
            (name, judged)
        };
        Self(objects.upstreams.iter().map(judge).collect())
    }

    /// Whether requests may be sent there: `None` if there is no such object, or why not.
    pub(crate) fn usable(&self, name: &ObjectName) -> Option<Result<(), &Rejection>> {
        let judged = self.0.get(name)?;
        let why = judged.refusal.as_ref().or(judged.unresolved.as_ref());
        Some(why.map_or(Ok(()), Err))
    }

    pub(crate) fn verdicts(&self) -> Vec<UpstreamVerdict> {
        let verdict = |(name, judged): (&ObjectName, &JudgedUpstream)| UpstreamVerdict {
            name: name.clone(),
            generation: judged.generation,
            conditions: [
                ConditionVerdict::unless("Accepted", "Accepted", judged.refusal.as_ref()),
                ConditionVerdict::unless("ResolvedRefs", "ResolvedRefs", judged.unresolved.as_ref()),
            ]
            .into_iter()
            .chain(judged.affected.iter().cloned())
            .collect(),
        };
        self.0.iter().map(verdict).collect()
    }
}

fn judge(name: &ObjectName, generation: Option<i64>, is_within: bool, inventory: &Inventory) -> JudgedUpstream {
    let affected = inventory.upstream_policies.get(name).map(affected).unwrap_or_default();
    let mut judged = JudgedUpstream { generation, affected, refusal: None, unresolved: None };
    if !is_within {
        let message = format!(
            "more than {MAX_OF_NAMESPACE} KubernetesUpstreams of one namespace, or {MAX_IN_ALL} of all, are older"
        );
        judged.refusal = Some(Rejection::new("TooManyUpstreams", message));
        return judged;
    }
    match inventory.upstreams.get(name) {
        Some(UpstreamState::Usable) => {}
        Some(UpstreamState::Invalid(why)) => judged.refusal = Some(Rejection::new("Invalid", why.clone())),
        Some(UpstreamState::Unresolved(why)) => judged.unresolved = Some(Rejection::new("RefNotResolved", why.clone())),
        None => judged.unresolved = Some(Rejection::new("RefNotResolved", "its references are not read yet")),
    }
    let refused = inventory.passing_clusters.get(&upstream_key(&name.namespace, &name.name));
    judged.refusal = judged.refusal.or_else(|| Some(Rejection::new("Invalid", refused?.clone())));
    judged
}

//! Policies among objects: which is in effect, and the `UpstreamCluster`s with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{ObjectKind, PolicyKind, kind_of, with_policies};
use portcullis_attach::{
    AttachedPolicies, DoorTargets, ListedDoors, ObjectName, PolicyMemo, PolicyObject, PolicyTargets, attach_policies,
};
use portcullis_gateway_api::{GatewayApiObject, ReferenceGrant, read_object};
use portcullis_sources::ObjectSet;
use serde_json::Value;

use crate::gateway_objects::gateway_objects_of;

/// The policies of a set, and the verdicts about them.
pub(crate) struct JudgedPolicies {
    /// The policies, in the set's order.
    pub(crate) objects: Vec<PolicyObject>,
    pub(crate) attached: AttachedPolicies,
    /// The doors among the objects.
    pub(crate) doors: DoorTargets,
}

/// Judges the policies of files. An object that is not among them is assumed to exist.
pub(crate) fn judge(objects: &ObjectSet, home_namespace: &str) -> JudgedPolicies {
    let mut targets = PolicyTargets { home_namespace: home_namespace.to_owned(), ..PolicyTargets::default() };
    // Two of one name are a mistake that is found elsewhere.
    for document in &objects.clusters {
        targets.clusters.entry(name_of(document).to_owned()).or_insert_with(|| Arc::clone(document));
    }
    let read = gateway_objects_of(objects);
    targets.upstreams = upstreams(objects);
    targets.doors = DoorTargets::Listed(ListedDoors::of(&read.classes, &read.gateways, &read.http_routes));
    let grants = grants(objects.others.iter());
    let policies: Vec<PolicyObject> =
        objects.policies.iter().filter_map(|document| Some(PolicyObject::read(kind(document)?, document))).collect();
    let attached = attach_policies(&policies, &grants, &targets, &mut PolicyMemo::default());
    JudgedPolicies { objects: policies, attached, doors: targets.doors }
}

/// The set with the policies in its `UpstreamCluster`s.
pub(crate) fn merged(objects: &ObjectSet, attached: &AttachedPolicies) -> ObjectSet {
    let mut seen = BTreeSet::new();
    let mut with = |document: &Arc<Value>| {
        let name = name_of(document);
        let is_first = seen.insert(name.to_owned());
        let policies = attached.in_effect.get(name).filter(|_| is_first).map_or(&[][..], Vec::as_slice);
        with_policies(document, policies)
    };
    ObjectSet { clusters: objects.clusters.iter().map(&mut with).collect(), ..objects.clone() }
}

/// The `KubernetesUpstreams` of a set. Two of one name are a mistake that is found elsewhere.
pub(crate) fn upstreams(objects: &ObjectSet) -> BTreeMap<ObjectName, Arc<Value>> {
    let mut upstreams = BTreeMap::new();
    let of_kind = objects.others.iter().filter(|document| kind_of(document) == ObjectKind::KubernetesUpstream);
    for document in of_kind {
        let namespace = document.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let name = ObjectName::new(namespace, name_of(document));
        upstreams.entry(name).or_insert_with(|| Arc::clone(document));
    }
    upstreams
}

/// The permissions among documents. One that cannot be read permits nothing.
pub(crate) fn grants<'a>(documents: impl Iterator<Item = &'a Arc<Value>>) -> Vec<ReferenceGrant> {
    let grant = |document: &Arc<Value>| match read_object(document) {
        Ok(GatewayApiObject::ReferenceGrant(grant)) => Some(grant),
        _ => None,
    };
    documents.filter_map(grant).collect()
}

/// The kind of a policy, by its `apiVersion` and `kind`.
pub(crate) fn kind(document: &Value) -> Option<PolicyKind> {
    match kind_of(document) {
        ObjectKind::Policy(kind) => Some(kind),
        _ => None,
    }
}

pub(crate) fn name_of(document: &Value) -> &str {
    document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

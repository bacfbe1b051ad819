//! Parts of `/status`: of one `Instance`, and of one `UpstreamCluster`.
//!
//! A tenant's part has nothing of others by its construction: it holds no text in which anything but the tenant's own objects and Envoys may
//! have a part. Texts are not searched for names, because one that is left out for a name would say that this name is in use.

mod own_object;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND};
use portcullis_xds::node_owner;

use super::instance_views::instance_of_view;
use super::object_status::ObjectStatus;
use super::object_statuses::ObjectStatuses;
use super::source::SourceStatus;
use super::status::{NodeReport, StatusBody, TypeStatus};
use own_object::TenantView;
pub(super) use own_object::is_of_own_envoys;

/// The message about a response as a whole. Envoy's own may quote host names of others, which a listener has to close.
const REJECTED: &str = "Envoy rejects a part of its configuration: see the condition Ready of the Instance";

/// Whether a node is an Envoy of this instance alone, by its certificate. One at the control plane's socket has none.
fn is_node_of(node: &str, instance: &str) -> bool {
    node_owner(node) == Some(instance)
}

impl StatusBody {
    /// An instance, the clusters that belong to it or are passed to it, and its Envoys, for readers who may see everything. `None` if there
    /// is no instance of this name.
    pub(super) fn part_of_instance(&self, name: &str) -> Option<Self> {
        let is_in = |object: &ObjectStatus| object.instances.iter().any(|one| one == name);
        let objects = self.objects_of(name, |object| is_in(object).then(|| Arc::clone(object)))?;
        let nodes = self.nodes.iter().filter(|node| is_of_view(node, name)).cloned().collect();
        let (snapshot, source) = (self.snapshot.clone(), self.source.clone());
        Some(Self { objects, nodes: Arc::new(nodes), snapshot, source, ..Self::default() })
    }

    /// The same for a tenant of the instance: the clusters that it holds, each until it has passed over, and its Envoys, without anything of
    /// others. `None` if there is no instance of this name.
    pub(super) fn part_of_tenant(&self, name: &str) -> Option<Self> {
        let is_own = |node: &&NodeReport| is_node_of(&node.id, name) && is_of_view(node, name);
        let own = self.nodes.iter().filter(is_own);
        let refuses_shared = own.clone().any(|node| node.refused.iter().any(|one| one.owner.is_none()));
        let is_held = |object: &ObjectStatus| object.holder.instance.as_deref() == Some(name);
        let tenant = TenantView { instance: name, refuses_shared };
        let objects = self.objects_of(name, |object| is_held(object).then(|| Arc::new(tenant.own_object(object))))?;
        let clusters = objects.iter().filter(|one| one.diagnosis.kind == CLUSTER_KIND);
        let clusters: BTreeSet<&str> = clusters.map(|one| one.diagnosis.name.as_str()).collect();
        let nodes = own.map(|node| own_node(node, &clusters)).collect();
        let source = own_source(&self.source);
        Some(Self { nodes: Arc::new(nodes), source, objects: Arc::clone(&objects), ..Self::default() })
    }

    /// The `UpstreamClusters` of this name in any case, for readers who may see everything. `None` if there is none.
    pub(super) fn part_of_cluster(&self, name: &str) -> Option<Self> {
        let is_it = |one: &&Arc<ObjectStatus>| {
            one.diagnosis.kind == CLUSTER_KIND && one.diagnosis.name.eq_ignore_ascii_case(name)
        };
        let found: Vec<_> = self.objects.iter().filter(is_it).cloned().collect();
        let (snapshot, source) = (self.snapshot.clone(), self.source.clone());
        let objects = (!found.is_empty()).then(|| Arc::new(ObjectStatuses::new(found)))?;
        Some(Self { objects, snapshot, source, ..Self::default() })
    }

    /// The `UpstreamCluster` of this name, for readers who may get it: as much as its status in the Kubernetes API has. `None` if there is
    /// none.
    pub(super) fn part_of_object(&self, name: &str) -> Option<Self> {
        let mut object = self.objects.cluster(name)?.clone();
        object.instances.clear();
        let objects = Arc::new(ObjectStatuses::new(vec![Arc::new(object)]));
        Some(Self { objects, source: own_source(&self.source), ..Self::default() })
    }

    /// The `Instance` of this name, and what is chosen of the clusters, in the order of all.
    fn objects_of(
        &self,
        instance: &str,
        choose: impl Fn(&Arc<ObjectStatus>) -> Option<Arc<ObjectStatus>>,
    ) -> Option<Arc<ObjectStatuses>> {
        let mut is_there = false;
        let mut part = |one: &Arc<ObjectStatus>| match one.diagnosis.kind.as_str() {
            CLUSTER_KIND => choose(one),
            INSTANCE_KIND if one.diagnosis.name == instance => {
                is_there = true;
                Some(Arc::clone(one))
            }
            _ => None,
        };
        let objects = self.objects.iter().filter_map(&mut part).collect();
        is_there.then(|| Arc::new(ObjectStatuses::new(objects)))
    }
}

fn is_of_view(node: &NodeReport, instance: &str) -> bool {
    node.view.as_deref().and_then(instance_of_view) == Some(instance)
}

/// An Envoy with the refusals of these clusters alone.
fn own_node(node: &NodeReport, clusters: &BTreeSet<&str>) -> NodeReport {
    let mut own = node.clone();
    own.refused.retain(|one| one.owner.as_deref().is_some_and(|owner| clusters.contains(owner)));
    for TypeStatus { nack, .. } in own.types.values_mut() {
        *nack = nack.take().map(|_| REJECTED.to_owned());
    }
    own
}

/// The age of what is served. Reasons may quote objects of others.
fn own_source(source: &SourceStatus) -> SourceStatus {
    SourceStatus { kind: source.kind, stale_since: source.stale_since.clone(), ..SourceStatus::default() }
}

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::CLUSTER_KIND;
use portcullis_attach::{DoorTargets, GatewayObjects, ListedDoors, ObjectName, PolicyObject, upstreams_within_bounds};
use portcullis_gateway_api::{ObjectMeta, read_object};
use portcullis_sources::{GatewayApiObjects, WatchedKind};
use serde::Deserialize;
use serde_json::Value;

/// Gateways, listeners and `HTTPRoutes`, as far as a policy is attached to one. The same objects are not read again.
#[derive(Default)]
pub(super) struct ReadDoors {
    known: Option<(Arc<GatewayApiObjects>, DoorTargets)>,
}

impl ReadDoors {
    /// The doors among objects; `None` where the control plane serves none.
    pub(super) fn read(
        &mut self,
        objects: Option<&Arc<GatewayApiObjects>>,
        policies: &[Arc<PolicyObject>],
    ) -> DoorTargets {
        let Some(objects) = objects else { return DoorTargets::Unserved };
        if !objects.is_listed() || !has_any(policies) {
            return DoorTargets::Unlisted;
        }
        if let Some((of, doors)) = &self.known
            && Arc::ptr_eq(of, objects)
        {
            return doors.clone();
        }
        let mut read = GatewayObjects::default();
        let kinds = [WatchedKind::GatewayClass, WatchedKind::Gateway, WatchedKind::HttpRoute];
        // One that cannot be read is reported where it is judged, and counts as absent there, too.
        kinds.into_iter().flat_map(|kind| objects.of(kind)).filter_map(|one| read_object(one).ok()).for_each(|one| {
            read.add(one);
        });
        let doors = DoorTargets::Listed(ListedDoors::of(&read.classes, &read.gateways, &read.http_routes));
        self.known = Some((Arc::clone(objects), doors.clone()));
        doors
    }
}

/// The `KubernetesUpstreams` among objects that there is room for: each with a policy is checked with it, and others are refused as they
/// are.
pub(super) fn upstreams(objects: &GatewayApiObjects) -> BTreeMap<ObjectName, Arc<Value>> {
    let named = |document: &Arc<Value>| {
        let metadata = ObjectMeta::deserialize(document.get("metadata")?).ok()?;
        Some((metadata, Arc::clone(document)))
    };
    let all: Vec<(ObjectMeta, Arc<Value>)> = objects.of(WatchedKind::KubernetesUpstream).filter_map(named).collect();
    let within = upstreams_within_bounds(all.iter().map(|(metadata, _)| metadata));
    let named = all.into_iter().map(|(metadata, document)| (ObjectName::of(&metadata), document));
    named.filter(|(name, _)| within.contains(name)).collect()
}

/// Whether a policy is attached to anything but `UpstreamClusters`.
pub(super) fn has_any(policies: &[Arc<PolicyObject>]) -> bool {
    policies.iter().any(|policy| policy.targets.iter().any(|target| target.kind != CLUSTER_KIND))
}

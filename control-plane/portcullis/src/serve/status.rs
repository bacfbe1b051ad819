use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use portcullis_api::status::{ClusterStatus, InstanceCounts, InstanceStatus, sanitize};
use portcullis_translate::Diagnosis;
use portcullis_xds::{NodeStatus, Refused, RejectedNode, Snapshot};
use serde::{Serialize, Serializer};

use super::gateway_states::EndpointHealth;
use super::gateway_views::served_version;
use super::source::SourceStatus;

/// The number of characters of a message, and of warnings of an object.
const MAX_TEXT: usize = 16_384;
const MAX_WARNINGS: usize = 100;

/// The body of /status. It holds no secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusBody {
    /// Those that are as they were are the same allocations as before.
    #[serde(serialize_with = "shared")]
    pub(crate) objects: Vec<Arc<ObjectStatus>>,
    pub(crate) nodes: Vec<NodeReport>,
    /// How the nodes see the endpoints: by Envoy cluster, then by node.
    pub(crate) endpoints: EndpointHealth,
    /// A hash of everything that is served, to whichever Envoy; empty before the first translation.
    pub(crate) snapshot: String,
    /// The source of the objects.
    pub(crate) source: SourceStatus,
    /// Envoys whose streams are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rejected_nodes: Vec<RejectedNodeStatus>,
}

/// An Envoy whose streams are refused.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RejectedNodeStatus {
    /// The node id in its requests.
    pub(crate) node: String,
    /// The peer that sent it: a name of the certificate, or an address.
    pub(crate) by: String,
    pub(crate) reason: String,
    pub(crate) times: u64,
}

impl From<RejectedNode> for RejectedNodeStatus {
    fn from(one: RejectedNode) -> Self {
        Self { node: one.node, by: sanitize(&one.by), reason: sanitize(&one.reason), times: one.times }
    }
}

/// An object, or a file that cannot be used as it stands.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectStatus {
    #[serde(flatten)]
    pub(crate) diagnosis: SharedDiagnosis,
    /// Settings and files have the condition `Accepted` alone.
    #[serde(flatten)]
    pub(crate) status: ClusterStatus,
    /// The instances of an `UpstreamCluster`: its holder, and the next one while it passes over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) instances: Vec<String>,
    /// The numbers of an `Instance`'s members; only of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<InstanceCounts>,
}

/// A diagnosis. It is not copied: those of thousands of objects are in memory anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedDiagnosis(Arc<Diagnosis>);

impl Deref for SharedDiagnosis {
    type Target = Diagnosis;

    fn deref(&self) -> &Diagnosis {
        &self.0
    }
}

#[cfg(test)]
impl std::ops::DerefMut for SharedDiagnosis {
    fn deref_mut(&mut self) -> &mut Diagnosis {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Arc<Diagnosis>> for SharedDiagnosis {
    fn from(diagnosis: Arc<Diagnosis>) -> Self {
        Self(diagnosis)
    }
}

impl Serialize for SharedDiagnosis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

fn shared<S: Serializer>(objects: &[Arc<ObjectStatus>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(objects.iter().map(AsRef::as_ref))
}

/// An Envoy that is connected, or was.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeReport {
    pub(crate) id: String,
    pub(crate) connected: bool,
    pub(crate) types: BTreeMap<String, TypeStatus>,
    pub(crate) in_sync: bool,
    /// The view that the node is served, unless it is that of Envoys with the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) view: Option<String>,
    /// Resources that it refuses. It keeps the version that it had of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<RefusedResource>,
}

/// A resource that a node refuses.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusedResource {
    r#type: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    pub(crate) version: String,
    message: String,
}

/// The state of one resource type at a node.
#[derive(Debug, Serialize)]
pub(crate) struct TypeStatus {
    pub(crate) sent: String,
    pub(crate) acked: String,
    /// The message of the node, as long as it refuses something.
    pub(crate) nack: Option<String>,
}

impl From<&Refused> for RefusedResource {
    fn from(one: &Refused) -> Self {
        Self {
            r#type: one.type_url.clone(),
            name: one.name.clone(),
            owner: one.owner.clone(),
            version: one.version.clone(),
            message: sanitize(&one.message),
        }
    }
}

impl ObjectStatus {
    /// An object with bounded messages: a manifest may have as many mistakes as it has lines.
    pub(crate) fn new(mut diagnosis: Arc<Diagnosis>, status: ClusterStatus) -> Self {
        let is_long = |text: &String| text.len() > MAX_TEXT;
        let has_many = diagnosis.warnings.len() > MAX_WARNINGS;
        if has_many || is_long(&diagnosis.message) || diagnosis.warnings.iter().any(is_long) {
            let diagnosis = Arc::make_mut(&mut diagnosis);
            truncate(&mut diagnosis.message);
            diagnosis.warnings.truncate(MAX_WARNINGS);
            diagnosis.warnings.iter_mut().for_each(truncate);
        }
        Self { diagnosis: diagnosis.into(), status, instances: Vec::new(), counts: None }
    }

    /// The status of an `Instance`, if it is one.
    pub(crate) fn instance_status(&self) -> Option<InstanceStatus> {
        let (observed_generation, conditions) = (self.status.observed_generation, self.status.conditions.clone());
        Some(InstanceStatus { observed_generation, conditions, counts: self.counts? })
    }
}

fn truncate(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
}

impl StatusBody {
    /// `snapshot` is what was published last: a node whose stream has not seen its view of it yet is not in sync.
    pub(crate) fn new(
        objects: Vec<Arc<ObjectStatus>>,
        nodes: &[NodeStatus],
        endpoints: EndpointHealth,
        snapshot: Option<&Snapshot>,
        source: SourceStatus,
        rejected_nodes: Vec<RejectedNode>,
    ) -> Self {
        let has_seen = |node: &NodeStatus| {
            let view = snapshot.and_then(|snapshot| snapshot.view(&node.view));
            view.is_some_and(|view| view.version() == node.snapshot)
        };
        let nodes = nodes.iter().map(|node| NodeReport {
            in_sync: node.in_sync && has_seen(node),
            id: node.id.clone(),
            connected: node.connected,
            view: node.view.0.clone(),
            types: node
                .types
                .iter()
                .map(|(url, status)| {
                    let nack = status.nack.as_deref().map(sanitize);
                    (url.clone(), TypeStatus { sent: status.sent.clone(), acked: status.acked.clone(), nack })
                })
                .collect(),
            refused: node.refused.iter().map(RefusedResource::from).collect(),
        });
        let rejected_nodes = rejected_nodes.into_iter().map(RejectedNodeStatus::from).collect();
        let nodes = nodes.collect();
        let snapshot = snapshot.map(served_version).unwrap_or_default();
        Self { objects, nodes, endpoints, snapshot, source, rejected_nodes }
    }
}

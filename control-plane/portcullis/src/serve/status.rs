use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::status::sanitize;
use portcullis_xds::{NodeStatus, Refused, RejectedNode, Snapshot};
use serde::{Serialize, Serializer};

use super::endpoint_reports::EndpointHealth;
use super::object_statuses::ObjectStatuses;
use super::source::SourceStatus;

/// The body of /status. It holds no secret. A part that is as it was is the same allocation as before.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusBody {
    #[serde(serialize_with = "shared")]
    pub(crate) objects: Arc<ObjectStatuses>,
    #[serde(serialize_with = "shared")]
    pub(crate) nodes: Arc<Vec<NodeReport>>,
    /// How the nodes see the endpoints: by Envoy cluster, then by node.
    #[serde(serialize_with = "by_pool")]
    pub(crate) endpoints: Arc<EndpointHealth>,
    /// A hash of everything that is served, to whichever Envoy; empty before the first translation.
    pub(crate) snapshot: String,
    /// The source of the objects.
    pub(crate) source: SourceStatus,
    /// Envoys whose streams are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rejected_nodes: Vec<RejectedNodeStatus>,
}

/// An Envoy whose streams are refused.
#[derive(Clone, Debug, Serialize)]
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

fn shared<T: Serialize, S: Serializer>(part: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    (**part).serialize(serializer)
}

fn by_pool<S: Serializer>(endpoints: &Arc<EndpointHealth>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(endpoints.iter().map(|(pool, nodes)| (&**pool, &**nodes)))
}

/// An Envoy that is connected, or was.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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

impl NodeReport {
    /// The report about each node. `snapshot` is what was published last: a node whose stream has not seen its view of it yet is not in
    /// sync.
    pub(crate) fn of_all(nodes: &[NodeStatus], snapshot: Option<&Snapshot>) -> Vec<Self> {
        let has_seen = |node: &NodeStatus| {
            let view = snapshot.and_then(|snapshot| snapshot.view(&node.view));
            view.is_some_and(|view| view.version() == node.snapshot)
        };
        let report = |node: &NodeStatus| Self {
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
        };
        nodes.iter().map(report).collect()
    }
}

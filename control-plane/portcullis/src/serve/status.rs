use std::collections::BTreeMap;

use portcullis_api::status::{ClusterStatus, told};
use portcullis_translate::Diagnosis;
use portcullis_xds::{NodeStatus, Refused, RejectedNode};
use serde::Serialize;

use super::gateway_states::EndpointHealth;
use super::source_state::SourceStatus;

/// Most characters of a message, and most warnings of an object.
const MAX_TEXT: usize = 16_384;
const MAX_WARNINGS: usize = 100;

/// The body of /status. It holds no secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) objects: Vec<Object>,
    pub(crate) nodes: Vec<Node>,
    /// How the nodes see the endpoints: by Envoy cluster, then by node.
    pub(crate) endpoints: EndpointHealth,
    /// A hash of everything that is served; empty before the first translation.
    pub(crate) snapshot: String,
    /// Where the objects come from.
    pub(crate) source: SourceStatus,
    /// Envoys whose streams are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) turned_away: Vec<RejectedNodeStatus>,
}

/// An Envoy whose streams are refused.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RejectedNodeStatus {
    /// The id that it tells.
    pub(crate) node: String,
    /// Who tells it.
    pub(crate) by: String,
    pub(crate) reason: String,
    pub(crate) times: u64,
}

impl From<RejectedNode> for RejectedNodeStatus {
    fn from(one: RejectedNode) -> Self {
        Self { node: one.node, by: told(&one.by), reason: told(&one.reason), times: one.times }
    }
}

/// An object, or a file that cannot be used as it stands.
#[derive(Debug, Serialize)]
pub(crate) struct Object {
    #[serde(flatten)]
    pub(crate) diagnosis: Diagnosis,
    /// Settings and files have the condition `Accepted` alone.
    #[serde(flatten)]
    pub(crate) status: ClusterStatus,
}

/// An Envoy that is connected, or was.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) connected: bool,
    pub(crate) types: BTreeMap<String, Type>,
    pub(crate) in_sync: bool,
    /// What it is told, if it is not what current Envoys with a current module are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) view: Option<String>,
    /// What it refuses. It keeps what it had of that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<Refusal>,
}

/// A resource that a node refuses.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusal {
    pub(crate) r#type: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    pub(crate) version: String,
    pub(crate) message: String,
}

/// Where one type of resource of a node stands.
#[derive(Debug, Serialize)]
pub(crate) struct Type {
    pub(crate) sent: String,
    pub(crate) acked: String,
    /// What the node says, as long as it refuses something.
    pub(crate) nack: Option<String>,
}

impl From<&Refused> for Refusal {
    fn from(one: &Refused) -> Self {
        Self {
            r#type: one.type_url.clone(),
            name: one.name.clone(),
            owner: one.owner.clone(),
            version: one.version.clone(),
            message: told(&one.message),
        }
    }
}

impl Object {
    /// A manifest may have as many mistakes as it has lines; what is told of them is bounded.
    pub(crate) fn new(mut diagnosis: Diagnosis, status: ClusterStatus) -> Self {
        cut(&mut diagnosis.message);
        diagnosis.warnings.truncate(MAX_WARNINGS);
        diagnosis.warnings.iter_mut().for_each(cut);
        Self { diagnosis, status }
    }
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
}

impl Status {
    /// `snapshot` is what was published last: a node whose stream has not seen it yet is not in sync.
    pub(crate) fn new(
        objects: Vec<Object>,
        nodes: &[NodeStatus],
        endpoints: EndpointHealth,
        snapshot: String,
        source: SourceStatus,
        turned_away: Vec<RejectedNode>,
    ) -> Self {
        let nodes = nodes.iter().map(|node| Node {
            in_sync: node.in_sync && node.snapshot == snapshot,
            id: node.id.clone(),
            connected: node.connected,
            view: node.view.0.clone(),
            types: node
                .types
                .iter()
                .map(|(url, status)| {
                    let nack = status.nack.as_deref().map(told);
                    (url.clone(), Type { sent: status.sent.clone(), acked: status.acked.clone(), nack })
                })
                .collect(),
            refused: node.refused.iter().map(Refusal::from).collect(),
        });
        let turned_away = turned_away.into_iter().map(RejectedNodeStatus::from).collect();
        Self { objects, nodes: nodes.collect(), endpoints, snapshot, source, turned_away }
    }
}

use std::collections::BTreeMap;

use portcullis_translate::Diagnosis;
use portcullis_xds::NodeStatus;
use serde::Serialize;

use super::source_state::SourceStatus;

/// The body of /status. It holds no secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    objects: Vec<Diagnosis>,
    nodes: Vec<Node>,
    /// A hash of everything that is served; empty before the first translation.
    snapshot: String,
    source: Option<SourceStatus>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: String,
    connected: bool,
    types: BTreeMap<String, Type>,
    in_sync: bool,
}

#[derive(Debug, Serialize)]
struct Type {
    sent: String,
    acked: String,
    nack: Option<String>,
}

impl Status {
    /// `snapshot` is what was published last: a node whose stream has not seen it yet is not in sync.
    pub(crate) fn new(objects: Vec<Diagnosis>, nodes: Vec<NodeStatus>, snapshot: String) -> Self {
        let nodes = nodes.into_iter().map(|node| Node {
            in_sync: node.in_sync && node.snapshot == snapshot,
            id: node.id,
            connected: node.connected,
            types: node
                .types
                .into_iter()
                .map(|(url, status)| (url, Type { sent: status.sent, acked: status.acked, nack: status.nack }))
                .collect(),
        });
        Self { objects, nodes: nodes.collect(), snapshot, source: None }
    }

    /// Adds where the objects come from.
    pub(super) fn of_source(self, source: SourceStatus) -> Self {
        Self { source: Some(source), ..self }
    }
}

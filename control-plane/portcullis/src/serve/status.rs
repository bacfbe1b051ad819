use std::collections::BTreeMap;

use portcullis_translate::Diagnosis;
use portcullis_xds::{Endpoints, NodeStatus, Refused};
use serde::Serialize;

/// The body of /status. It holds no secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    objects: Vec<Diagnosis>,
    nodes: Vec<Node>,
    /// How the nodes see the endpoints: by Envoy cluster, then by node.
    endpoints: BTreeMap<String, BTreeMap<String, Seen>>,
    /// A hash of everything that is served; empty before the first translation.
    snapshot: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: String,
    connected: bool,
    types: BTreeMap<String, Type>,
    in_sync: bool,
    /// What it refuses. It keeps what it had of that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refusal>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Refusal {
    r#type: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    version: String,
    message: String,
}

impl From<Refused> for Refusal {
    fn from(one: Refused) -> Self {
        Self { r#type: one.type_url, name: one.name, owner: one.owner, version: one.version, message: one.message }
    }
}

#[derive(Debug, Serialize)]
struct Seen {
    healthy: u32,
    total: u32,
}

#[derive(Debug, Serialize)]
struct Type {
    sent: String,
    acked: String,
    nack: Option<String>,
}

impl Status {
    /// `snapshot` is what was published last: a node whose stream has not seen it yet is not in sync.
    pub(crate) fn new(
        objects: Vec<Diagnosis>,
        nodes: Vec<NodeStatus>,
        endpoints: BTreeMap<String, BTreeMap<String, Endpoints>>,
        snapshot: String,
    ) -> Self {
        let nodes = nodes.into_iter().map(|node| Node {
            in_sync: node.in_sync && node.snapshot == snapshot,
            id: node.id,
            connected: node.connected,
            types: node
                .types
                .into_iter()
                .map(|(url, status)| (url, Type { sent: status.sent, acked: status.acked, nack: status.nack }))
                .collect(),
            refused: node.refused.into_iter().map(Refusal::from).collect(),
        });
        let seen = |(node, seen): (_, Endpoints)| (node, Seen { healthy: seen.healthy, total: seen.total });
        let endpoints = endpoints.into_iter().map(|(name, nodes)| (name, nodes.into_iter().map(seen).collect()));
        Self { objects, nodes: nodes.collect(), endpoints: endpoints.collect(), snapshot }
    }
}

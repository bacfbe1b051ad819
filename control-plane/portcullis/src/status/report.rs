use portcullis_api::CLUSTER_KIND;
use portcullis_api::status::{ClusterStatus, ConditionType, InstanceCounts};
use serde::Deserialize;

/// The members of /status that are read. A newer control plane may send more.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StatusReport {
    pub(super) objects: Vec<Object>,
    pub(super) nodes: Vec<Node>,
    pub(super) source: Source,
}

/// The source of the objects.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Source {
    pub(super) stale_since: Option<String>,
    pub(super) reason: Option<String>,
}

/// An object, or a file that cannot be used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Object {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) at: Option<String>,
    pub(super) accepted: bool,
    pub(super) message: String,
    pub(super) warnings: Vec<String>,
    #[serde(flatten)]
    pub(super) status: ClusterStatus,
    /// Only of an `Instance`.
    pub(super) counts: Option<InstanceCounts>,
}

/// An Envoy.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) connected: bool,
    pub(super) in_sync: bool,
}

impl Object {
    pub(super) fn is_cluster(&self) -> bool {
        self.kind == CLUSTER_KIND
    }

    /// Whether it is accepted and, if gateways are to have it, programmed.
    pub(super) fn is_well(&self) -> bool {
        self.accepted && (!self.is_cluster() || self.status.is(ConditionType::Programmed))
    }

    /// The message that a reader needs first: the reason that it is not accepted, else not programmed, else not ready.
    pub(super) fn headline(&self) -> &str {
        let kinds = [ConditionType::Accepted, ConditionType::Programmed, ConditionType::Ready];
        let bad = kinds.into_iter().find(|kind| !self.status.is(*kind));
        match bad {
            Some(ConditionType::Accepted) => &self.message,
            Some(kind) => self.status.condition(kind).map_or("", |condition| &condition.message),
            // Served, but not under every name.
            None if !self.message.is_empty() => &self.message,
            None => self.warnings.first().map_or("", String::as_str),
        }
    }
}

//! Nodes, and the views of the same objects for nodes that understand them differently.

use std::time::Instant;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::google::protobuf::value::Kind;
use portcullis_api::status::GatewayProgress;

use crate::membership::Membership;
use crate::node_name::node_name;

/// A node's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its id.
    pub id: String,
    /// Envoy's version, major and minor.
    pub envoy: Option<(u32, u32)>,
    /// Members of its metadata that are texts or numbers.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// The Gateways and instances that it may belong to, whatever its metadata say.
    pub membership: Membership,
}

/// Why there is no view for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// It cannot read what is served, for this reason. It keeps its last configuration, and may find another replica that serves it.
    Frozen(String),
    /// It may not be what it says, for this reason.
    Foreign(String),
}

/// The view that a node is sent: the name of one in [`crate::Snapshot::with_views`], or the snapshot itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View(pub Option<String>);

/// A hold that ends with a stream.
pub type StreamGuard = Option<Box<dyn Send + Sync>>;

/// Decides about views.
pub trait Views: Send + Sync {
    /// The view of a node.
    ///
    /// # Errors
    /// The reason that there is no view for this node. Its streams are refused with it.
    fn view(&self, node: &NodeInfo) -> Result<View, Unserved>;

    /// Takes note of a stream of a node that gets a view. The result is dropped when the stream ends, after the registry has
    /// forgotten it.
    fn hold(&self, _node: &NodeInfo, _view: &View) -> StreamGuard {
        None
    }

    /// The part of everything about which the agent of a node may report.
    ///
    /// # Errors
    /// The reason that it may report nothing.
    fn reported(&self, node: &NodeInfo) -> Result<ReportScope, Unserved> {
        Ok(ReportScope { membership: node.membership.clone(), views: None })
    }
}

/// The part of everything about which an agent may report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportScope {
    /// The Gateways and instances under which its reports are kept. A process of this machine may report for a Gateway.
    pub membership: Membership,
    /// The views about whose clusters it may report health; `None` are all of them.
    pub views: Option<Vec<View>>,
}

/// One view for all nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneView;

impl Views for OneView {
    fn view(&self, _: &NodeInfo) -> Result<View, Unserved> {
        Ok(View::default())
    }
}

/// Longest text of a node's metadata that is read: a namespace and a name have 317 bytes, sixteen addresses of IPv6 at most 639.
const MAX_TEXT: usize = 1_024;

impl NodeInfo {
    /// Its name: what is kept of it is kept under this name ([`crate::Registry::view_progress`]).
    pub fn name(&self) -> String {
        node_name(&self.membership, &self.id)
    }

    pub(crate) fn of(node: &Node, membership: Membership) -> Self {
        let envoy = match &node.user_agent_version_type {
            Some(UserAgentVersionType::UserAgentBuildVersion(build)) => {
                build.version.as_ref().map(|version| (version.major_number, version.minor_number))
            }
            _ => None,
        };
        let fields = node.metadata.iter().flat_map(|metadata| &metadata.fields);
        let text = |kind: &Kind| match kind {
            Kind::StringValue(text) if text.len() <= MAX_TEXT => Some(text.clone()),
            Kind::NumberValue(number) => Some(number.to_string()),
            _ => None,
        };
        let metadata = fields.filter_map(|(key, value)| Some((key.clone(), text(value.kind.as_ref()?)?)));
        Self { id: node.id.clone(), envoy, metadata: metadata.collect(), membership }
    }
}

/// A resource of the newest snapshot that a node refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The resource's type.
    pub type_url: String,
    /// The resource's name.
    pub name: String,
    /// The version that is refused. It is not sent again.
    pub version: String,
    /// The node's message about it.
    pub message: String,
    /// The owner, see [`crate::Resource::owned_by`].
    pub owner: Option<String>,
    /// Whether all others are served without it, see [`crate::Resource::optional`].
    pub is_optional: bool,
}

/// The progress of two together: a refusal counts before a pending resource.
pub(crate) fn combined(one: GatewayProgress, other: GatewayProgress) -> GatewayProgress {
    match (one, other) {
        (refused @ GatewayProgress::Refused { .. }, _) | (_, refused @ GatewayProgress::Refused { .. }) => refused,
        (GatewayProgress::Acknowledged, GatewayProgress::Acknowledged) => GatewayProgress::Acknowledged,
        _ => GatewayProgress::Pending,
    }
}

/// A node whose streams are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedNode {
    /// The node's name: its id in its requests, with the instance or the Gateway of its certificate before it.
    pub node: String,
    /// The peer that sent them.
    pub by: String,
    /// Why it is refused.
    pub reason: String,
    /// How often.
    pub times: u64,
    /// Whether there is no view for it, so that it keeps its last configuration; else it may not be that node.
    pub is_frozen: bool,
    /// The last time.
    pub last: Instant,
}

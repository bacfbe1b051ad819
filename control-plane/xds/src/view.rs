//! Nodes differ in what they understand: each is told its own view of the same objects.

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::google::protobuf::value::Kind;

/// What a node says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its id.
    pub id: String,
    /// Envoy's version, major and minor.
    pub envoy: Option<(u32, u32)>,
    /// Members of its metadata that are texts or numbers.
    pub metadata: std::collections::BTreeMap<String, String>,
}

/// Which view a node is told: the name of one in [`crate::Snapshot::with_views`], or the snapshot itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View(pub Option<String>);

/// Decides about views.
pub trait Views: Send + Sync {
    /// The view of a node.
    ///
    /// # Errors
    /// The reason that there is no view for this node. Its streams are refused with it, so that it keeps its last
    /// configuration, and may find another replica that serves it.
    fn view(&self, node: &NodeInfo) -> Result<View, String>;
}

/// Everybody is told the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneView;

impl Views for OneView {
    fn view(&self, _: &NodeInfo) -> Result<View, String> {
        Ok(View::default())
    }
}

/// Longest text of a node's metadata that is read.
const MAX_TEXT: usize = 256;

impl NodeInfo {
    pub(crate) fn of(node: &Node) -> Self {
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
        Self { id: node.id.clone(), envoy, metadata: metadata.collect() }
    }
}

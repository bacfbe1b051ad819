//! The first message of a stream, and the node that it is from.

use std::time::Instant;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use prost::Message;
use tonic::Status;

use super::ServerState;
use crate::admission::Admission;
use crate::limits::Rejection;
use crate::node::{NodeInfo, RejectedNode, StreamGuard, Unserved, View};

/// Longest id of a node.
const MAX_NODE_ID: usize = 256;
/// Bytes in memory of a text beside its content: its place in a list that has grown, or in a map, and what the allocator adds.
const TEXT: usize = 64;

/// The node of a stream that is let in.
pub(super) struct KnownNode {
    pub(super) id: String,
    /// The name under which it is known.
    pub(super) name: String,
    pub(super) view: View,
    /// Ends with the stream.
    pub(super) held: StreamGuard,
}

/// Lets a stream in, if the peer may be the node of its first message. Nothing else of the node has to be kept, nor of the message
/// what a first one cannot be about: there is no response to answer, and nothing is served by locators.
pub(super) fn introduce(
    served: &ServerState,
    admission: &Admission,
    first: &mut DeltaDiscoveryRequest,
) -> Result<KnownNode, Status> {
    let node = first.node.take().ok_or_else(|| Status::invalid_argument("say first which node this is"))?;
    let (view, held) = admit(served, admission, &node)?;
    admission.admit();
    let id = node.id;
    *first = DeltaDiscoveryRequest {
        node: Some(Node { id: id.clone(), ..Node::default() }),
        type_url: std::mem::take(&mut first.type_url),
        resource_names_subscribe: std::mem::take(&mut first.resource_names_subscribe),
        resource_names_unsubscribe: std::mem::take(&mut first.resource_names_unsubscribe),
        initial_resource_versions: std::mem::take(&mut first.initial_resource_versions),
        ..DeltaDiscoveryRequest::default()
    };
    Ok(KnownNode { name: admission.peer().node_name(&id), id, view, held })
}

/// The view of a node, if the peer may be that node, and what ends with the stream.
fn admit(served: &ServerState, admission: &Admission, node: &Node) -> Result<(View, StreamGuard), Status> {
    let peer = admission.peer();
    let reject = |reason: &str, is_frozen| {
        admission.rejected(if is_frozen { Rejection::Frozen } else { Rejection::Node });
        served.registry.record_rejection(RejectedNode {
            node: peer.node_name(&node.id.chars().take(MAX_NODE_ID).collect::<String>()),
            by: peer.describe(),
            reason: reason.to_owned(),
            times: 0,
            is_frozen,
            last: Instant::now(),
        });
    };
    peer.may_be(&node.id).inspect_err(|status| reject(status.message(), false))?;
    if node.id.is_empty() || node.id.len() > MAX_NODE_ID {
        return Err(Status::invalid_argument("a node id has 1 to 256 bytes"));
    }
    let info = NodeInfo::of(node, peer.membership());
    let view = served.views.view(&info).map_err(|unserved| match unserved {
        Unserved::Frozen(reason) => {
            reject(&reason, true);
            Status::failed_precondition(reason)
        }
        Unserved::Foreign(reason) => {
            reject(&reason, false);
            Status::permission_denied(reason)
        }
    })?;
    served.registry.forget_rejection(&peer.node_name(&node.id), &peer.describe());
    let held = served.views.hold(&info, &view);
    Ok((view, held))
}

/// Bytes in memory of a first message that waits for a snapshot.
pub(super) fn waiting_bytes(first: &DeltaDiscoveryRequest) -> usize {
    let names = first.resource_names_subscribe.len() + first.resource_names_unsubscribe.len();
    let texts = names + 2 * first.initial_resource_versions.len();
    first.encoded_len() + texts * TEXT
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use envoy_types::pb::envoy::service::discovery::v3::ResourceLocator;
    use envoy_types::pb::google::protobuf::{Any, Struct};
    use tokio::sync::watch;

    use super::*;
    use crate::limits::Limits;
    use crate::node::OneView;

    #[test]
    fn no_more_is_kept_of_a_first_message_than_it_can_be_about() {
        let served = ServerState {
            snapshots: watch::channel(None).1,
            registry: Arc::default(),
            health: Arc::default(),
            views: Arc::new(OneView),
            reports: None,
        };
        let admission = Admission::local(Limits::default());
        let of_node = |metadata| Node { id: "one".to_owned(), metadata, ..Node::default() };
        let kept = DeltaDiscoveryRequest {
            node: Some(of_node(None)),
            type_url: "t".to_owned(),
            resource_names_subscribe: vec!["a".to_owned()],
            resource_names_unsubscribe: vec!["b".to_owned()],
            initial_resource_versions: [("c".to_owned(), "1".to_owned())].into(),
            ..DeltaDiscoveryRequest::default()
        };
        let details = vec![Any::default(); 1_000];
        let mut first = DeltaDiscoveryRequest {
            node: Some(of_node(Some(Struct::default()))),
            response_nonce: "7".to_owned(),
            error_detail: Some(envoy_types::pb::google::rpc::Status { details, ..Default::default() }),
            resource_locators_subscribe: vec![ResourceLocator::default()],
            resource_locators_unsubscribe: vec![ResourceLocator::default()],
            ..kept.clone()
        };
        let known = introduce(&served, &admission, &mut first).unwrap();
        assert_eq!((known.id.as_str(), first), ("one", kept));
    }

    /// A list that has grown has room for twice as many texts, of 24 bytes each and an allocation of 32 at least.
    #[test]
    fn texts_count_as_what_they_take_in_memory() {
        let short = |count: usize| vec!["a".to_owned(); count];
        let names = DeltaDiscoveryRequest { resource_names_subscribe: short(1_000), ..Default::default() };
        assert!(waiting_bytes(&names) >= 1_000 * (24 * 3 / 2 + 32 - 8));
        let versions = (0..1_000).map(|number| (number.to_string(), String::new()));
        let versions = DeltaDiscoveryRequest { initial_resource_versions: versions.collect(), ..Default::default() };
        assert!(waiting_bytes(&versions) >= 1_000 * (49 * 2 + 32));
    }
}

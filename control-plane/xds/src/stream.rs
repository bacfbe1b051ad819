use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Node;

use crate::kind::Kind;
use crate::{Refused, Snapshot, Standing, TypeStatus};

/// What may be asked of one node's conversation, whatever variant of the protocol it speaks.
pub(crate) trait NodeStream: Send {
    /// The node's id: empty before the first request.
    fn node(&self) -> &str;
    /// The version of the newest snapshot that the stream knows.
    fn snapshot_version(&self) -> &str;
    /// Whether all that the node subscribed to is acknowledged in the newest version.
    fn is_in_sync(&self) -> bool;
    /// Where each type stands.
    fn status(&self) -> BTreeMap<String, TypeStatus>;
    /// What the node refuses of the newest snapshot.
    fn refused(&self) -> Vec<Refused>;
    /// Where the node stands with one owner's resources in a snapshot; `None` if it holds none of them.
    fn standing(&self, snapshot: &Snapshot, owner: &str) -> Option<Standing>;
    /// The number of the oldest response without an answer.
    fn oldest_unanswered(&self) -> Option<u64>;
    /// How many names are remembered because the other side told them.
    fn burden(&self) -> usize;
}

/// A refusal, as a request tells it.
pub(crate) struct Refusal<'a> {
    pub(crate) type_url: &'a str,
    pub(crate) message: &'a str,
}

/// One variant of the protocol, as the server drives it.
pub(crate) trait Conversation: NodeStream + 'static {
    type Request: Send + 'static;
    type Response: Send + 'static;
    /// What is to be sent: it shares the bytes of the snapshot.
    type Draft: Send + 'static;

    /// A new stream.
    fn new(snapshot: Arc<Snapshot>) -> Self;
    /// Takes a request: a subscription, an acknowledgement or both. Returns what is to be sent, in this order.
    fn on_request(&mut self, request: Self::Request) -> Vec<Self::Draft>;
    /// Takes a newer snapshot. Returns what is to be sent, in this order.
    fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Vec<Self::Draft>;
    /// Bytes of what is to be sent, without names.
    fn size(draft: &Self::Draft) -> usize;
    /// Makes what is sent.
    fn finish(draft: Self::Draft) -> Self::Response;
    /// Who says it; told on a stream's first request.
    fn node_of(request: &Self::Request) -> Option<&Node>;
    /// What a request refuses.
    fn refusal(request: &Self::Request) -> Option<Refusal<'_>>;
    /// Why a request refuses something, in the other side's words.
    fn reason(request: &mut Self::Request) -> Option<&mut String>;
    /// Whether all that a request names has a name of usual length.
    fn is_sane(request: &Self::Request) -> bool;
    /// The type of what a request answers, if it answers something.
    fn answered(request: &Self::Request) -> Option<Kind>;
    /// The type of what is sent.
    fn kind_of(response: &Self::Response) -> Kind;
    /// Logs what is sent, without its content.
    fn log(&self, response: &Self::Response);
}

/// Longest name of a type or a resource.
const MAX_NAME: usize = 1_024;
/// Longest version: one may tell of thousands of parts.
const MAX_VERSION: usize = 32 * 1_024;
/// Most types that are asked for on one stream.
pub(crate) const MAX_TYPES: usize = 32;

/// Whether names have a usual length.
pub(crate) fn are_short<'a>(names: impl IntoIterator<Item = &'a String>) -> bool {
    names.into_iter().all(|name| name.len() <= MAX_NAME)
}

/// Whether versions have a length that ours may have.
pub(crate) fn are_versions<'a>(versions: impl IntoIterator<Item = &'a String>) -> bool {
    versions.into_iter().all(|version| version.len() <= MAX_VERSION)
}

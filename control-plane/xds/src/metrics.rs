use std::sync::Arc;

use crate::limits::Rejection;
use crate::node::View;

/// Counters of xDS streams. Calls come from within the streams, so they must not wait.
///
/// `kind` is Envoy's name of a resource type, shortened: `clusters`, `endpoints`, `secrets`, `listeners`, `routes` or `other`.
pub trait XdsMetrics: Send + Sync {
    /// A response was sent.
    fn responded(&self, kind: &'static str);
    /// A response was acknowledged (ACK).
    fn acked(&self, kind: &'static str);
    /// A response was refused (NACK).
    fn nacked(&self, kind: &'static str);
    /// The node of that name acknowledged the whole of its view of a snapshot that came while it was connected.
    fn propagated(&self, view: &View, name: &str, snapshot: &str);
    /// The server refused or ended a handshake, connection, stream or message.
    fn rejected(&self, reason: Rejection);
}

/// The metrics, if there are any.
#[derive(Clone, Default)]
pub(crate) struct OptionalMetrics(Option<Arc<dyn XdsMetrics>>);

impl OptionalMetrics {
    pub(crate) fn new(metrics: Arc<dyn XdsMetrics>) -> Self {
        Self(Some(metrics))
    }

    pub(crate) fn with(&self, count: impl FnOnce(&dyn XdsMetrics)) {
        if let Some(metrics) = &self.0 {
            count(metrics.as_ref());
        }
    }
}

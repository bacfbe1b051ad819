use std::sync::Arc;

use crate::Rejection;

/// Who wants to know what happens in conversations, for counters. It is called in between, so it must not wait.
///
/// `kind` is what Envoy calls a type, shortened: `clusters`, `endpoints`, `secrets`, `listeners`, `routes` or `other`.
pub trait Observer: Send + Sync {
    /// A response was sent.
    fn sent(&self, kind: &'static str);
    /// A response was acknowledged.
    fn acknowledged(&self, kind: &'static str);
    /// A response was refused.
    fn refused(&self, kind: &'static str);
    /// A node has acknowledged the whole of a snapshot that came while it was connected.
    fn caught_up(&self, snapshot: &str);
    /// Somebody was turned away, or sent away.
    fn turned_away(&self, why: Rejection);
}

/// At most one of them.
#[derive(Clone, Default)]
pub(crate) struct Observed(Option<Arc<dyn Observer>>);

impl Observed {
    pub(crate) fn by(observer: Arc<dyn Observer>) -> Self {
        Self(Some(observer))
    }

    pub(crate) fn tell(&self, what: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.0 {
            what(observer.as_ref());
        }
    }
}

use k8s_openapi::jiff::Timestamp;
use portcullis_sources::SourceHealth;
use serde::Serialize;
use tokio::sync::watch;

use super::source::{Source, SourceKind};
use crate::leader::Leadership;

/// The state of the source, for the pages.
#[derive(Clone)]
pub(super) struct SourceState {
    kind: SourceKind,
    health: watch::Receiver<SourceHealth>,
    leads: Option<watch::Receiver<bool>>,
}

/// The source in /status. It holds no secret.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceStatus {
    pub(super) kind: &'static str,
    /// Since when what is served may be old, in RFC 3339; none if it is current.
    pub(super) stale_since: Option<String>,
    /// Why.
    pub(super) reason: Option<String>,
    /// Whether this replica leads; none where replicas do not elect one.
    pub(super) leader: Option<bool>,
}

impl SourceState {
    pub(super) fn new(source: &Source, leadership: Option<&Leadership>) -> Self {
        let leads = leadership.map(|leadership| leadership.leads.clone());
        Self { kind: source.kind, health: source.health.clone(), leads }
    }

    pub(super) fn told(&self) -> SourceStatus {
        let health = self.health.borrow().clone();
        let since = health.stale_since.and_then(|since| Timestamp::try_from(since).ok());
        SourceStatus {
            kind: match self.kind {
                SourceKind::Directory => "directory",
                SourceKind::Kubernetes => "kubernetes",
            },
            stale_since: since.map(|since| format!("{since:.0}")),
            reason: health.reason,
            leader: self.leads.as_ref().map(|leads| *leads.borrow()),
        }
    }
}

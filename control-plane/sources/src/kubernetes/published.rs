use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::statuses::StatusByKey;
use super::{GatewayApiObjects, StoredStatuses, WatchedKind};

/// The outputs that sessions of several kinds share, each for its own kind.
#[derive(Clone)]
pub(super) struct Published {
    statuses: watch::Sender<Arc<StoredStatuses>>,
    gateway_api: watch::Sender<Arc<GatewayApiObjects>>,
    policies: watch::Sender<Arc<GatewayApiObjects>>,
}

/// The receivers of the outputs.
pub(super) struct PublishedReceivers {
    pub(super) statuses: watch::Receiver<Arc<StoredStatuses>>,
    pub(super) gateway_api: watch::Receiver<Arc<GatewayApiObjects>>,
    pub(super) policies: watch::Receiver<Arc<GatewayApiObjects>>,
}

impl Published {
    /// With nothing in it.
    pub(super) fn new() -> Self {
        Self {
            statuses: watch::Sender::new(Arc::default()),
            gateway_api: watch::Sender::new(Arc::default()),
            policies: watch::Sender::new(Arc::default()),
        }
    }

    pub(super) fn subscribe(&self) -> PublishedReceivers {
        PublishedReceivers {
            statuses: self.statuses.subscribe(),
            gateway_api: self.gateway_api.subscribe(),
            policies: self.policies.subscribe(),
        }
    }

    /// The statuses of all objects of a kind.
    pub(super) fn statuses(&self, kind: WatchedKind, newest: StatusByKey) {
        set(&self.statuses, |all| all.set(kind, newest));
    }

    /// The objects of a kind of the Gateway API.
    pub(super) fn gateway_api(&self, kind: WatchedKind, newest: Arc<[Arc<Value>]>, cut: BTreeSet<String>) {
        set(&self.gateway_api, |all| all.set(kind, newest, cut));
    }

    /// Policies of a kind, or the permissions for them.
    pub(super) fn policies(&self, kind: WatchedKind, newest: Arc<[Arc<Value>]>, cut: BTreeSet<String>) {
        set(&self.policies, |all| all.set(kind, newest, cut));
    }
}

/// After an outage everything was listed again, and may be what it was.
fn set<T: Clone + PartialEq>(sender: &watch::Sender<Arc<T>>, set: impl FnOnce(&mut T)) {
    sender.send_if_modified(|last| {
        let mut newest = T::clone(last);
        set(&mut newest);
        let is_new = newest != **last;
        if is_new {
            *last = Arc::new(newest);
        }
        is_new
    });
}

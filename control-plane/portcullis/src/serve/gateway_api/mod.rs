//! The Gateway API: its objects are judged by the attach step, and their statuses written. Nothing is served of them yet.
//!
//! [`statuses`] is pure; here the step runs, whenever objects or names of `UpstreamCluster`s have changed.

mod statuses;
mod supported_version;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use portcullis_api::CLUSTER_KIND;
use portcullis_attach::{Attached, ConditionVerdict, GatewayObjects, Inventory, ObjectName, attach};
use portcullis_gateway_api::{NAMESPACE_NAME_LABEL, read_object};
use portcullis_sources::{GatewayApiObjects, KubernetesAccess, ObjectKey, StoredStatuses, WatchedKind};
use portcullis_translate::Diagnosis;
use serde_json::Value;
use tokio::sync::watch;

/// Least time between two steps: many routes change together.
const PACE: Duration = Duration::from_millis(250);
/// The interval of looking at the version of the definitions.
const VERSION_INTERVAL: Duration = Duration::from_secs(60);

/// Verdicts about all objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GatewayApiVerdicts {
    attached: Attached,
    supported: Option<ConditionVerdict>,
}

impl GatewayApiVerdicts {
    /// The wanted status of each object, by `now` in RFC 3339.
    pub(super) fn statuses<'a>(
        &'a self,
        stored: &'a StoredStatuses,
        now: &'a str,
    ) -> impl Iterator<Item = (ObjectKey, Value)> + 'a {
        statuses::statuses(&self.attached, self.supported.as_ref(), stored, now)
    }
}

/// The inputs of the step.
pub(super) struct GatewayApi {
    pub(super) access: KubernetesAccess,
    /// The objects of the Gateway API, with namespaces and Services.
    pub(super) objects: watch::Receiver<Arc<GatewayApiObjects>>,
    /// The `UpstreamCluster`s, with the names that they own.
    pub(super) diagnoses: watch::Receiver<Arc<Vec<Diagnosis>>>,
    /// The names of `GatewaySettings`.
    pub(super) statuses: watch::Receiver<Arc<StoredStatuses>>,
}

/// The names on which a step depends beside the objects.
#[derive(Clone, Debug, Default, PartialEq)]
struct ReferredNames {
    clusters: BTreeMap<String, BTreeSet<String>>,
    settings: BTreeSet<String>,
}

impl GatewayApi {
    /// Judges until a sender is gone. Needs a tokio runtime.
    pub(super) fn start(self) -> watch::Receiver<Arc<GatewayApiVerdicts>> {
        let (sender, receiver) = watch::channel(Arc::default());
        tokio::spawn(self.run(sender));
        receiver
    }

    async fn run(mut self, sender: watch::Sender<Arc<GatewayApiVerdicts>>) {
        let mut versions = tokio::time::interval(VERSION_INTERVAL);
        let mut supported = None;
        let mut judged: Option<(Arc<GatewayApiObjects>, ReferredNames)> = None;
        let mut attached = Attached::default();
        loop {
            let objects = self.objects.borrow_and_update().clone();
            let names = self.names();
            let is_known = judged.as_ref().is_some_and(|(of, by)| Arc::ptr_eq(of, &objects) && *by == names);
            if !is_known {
                let (of, by, home) = (Arc::clone(&objects), names.clone(), self.access.namespace.clone());
                // Thousands of routes take a while.
                let Ok(newer) = tokio::task::spawn_blocking(move || judge(&of, by, home)).await else { return };
                attached = newer;
                judged = Some((objects, names));
            }
            let verdicts = GatewayApiVerdicts { attached: attached.clone(), supported: supported.clone() };
            sender.send_if_modified(|before| {
                let is_new = **before != verdicts;
                if is_new {
                    *before = Arc::new(verdicts);
                }
                is_new
            });
            tokio::time::sleep(PACE).await;
            tokio::select! {
                changed = self.objects.changed() => if changed.is_err() { return },
                changed = self.diagnoses.changed() => if changed.is_err() { return },
                changed = self.statuses.changed() => if changed.is_err() { return },
                _ = versions.tick() => supported = supported_version::supported(&self.access.client).await.or(supported),
                () = sender.closed() => return,
            }
        }
    }

    fn names(&mut self) -> ReferredNames {
        let diagnoses = self.diagnoses.borrow_and_update().clone();
        let owned = |one: &Diagnosis| (one.name.clone(), one.names.iter().cloned().collect());
        let statuses = self.statuses.borrow_and_update().clone();
        let settings = statuses.keys().filter(|key| key.kind == WatchedKind::GatewaySettings);
        ReferredNames {
            clusters: diagnoses.iter().filter(|one| one.kind == CLUSTER_KIND).map(owned).collect(),
            settings: settings.map(|key| key.name.clone()).collect(),
        }
    }
}

fn judge(objects: &GatewayApiObjects, names: ReferredNames, home_namespace: String) -> Attached {
    let mut read = GatewayObjects::default();
    for document in objects.of_gateway_api() {
        match read_object(document) {
            Ok(object) => read.add(object),
            Err(error) => {
                let name = name_of(document);
                tracing::warn!(%name, %error, "an object of the Gateway API cannot be read and counts as absent");
            }
        }
    }
    let labels = |document: &Arc<Value>| {
        let name = name_of(document).name;
        let labels = document.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        // The API server sets it.
        let labels: BTreeMap<String, String> =
            labels.chain([(NAMESPACE_NAME_LABEL.to_owned(), name.clone())]).collect();
        (name, labels)
    };
    let ports = |document: &Arc<Value>| {
        let ports = document.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
        let numbers = ports.filter_map(|port| u16::try_from(port.get("port")?.as_u64()?).ok());
        (name_of(document), numbers.collect())
    };
    let inventory = Inventory {
        is_complete: true,
        has_unseen_contents: true,
        home_namespace,
        services: objects.of(WatchedKind::Service).map(ports).collect(),
        namespaces: objects.of(WatchedKind::Namespace).map(labels).collect(),
        clusters: names.clusters,
        settings: names.settings,
        ..Inventory::default()
    };
    attach(&read, &inventory)
}

fn name_of(document: &Value) -> ObjectName {
    let text = |field: &str| document.pointer(field).and_then(Value::as_str).unwrap_or_default();
    ObjectName::new(text("/metadata/namespace"), text("/metadata/name"))
}

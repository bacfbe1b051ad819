//! All control planes of a store divide limits that gateways share.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use portcullis_limits_store::{ClusterExchange, LimitStore, ProcessReport};
use portcullis_report::limits::ClusterUseMessage;
use portcullis_xds::{GatewayReport, UnreadableReport};
use tokio::sync::watch;

use super::super::fleet::{ServedObjects, SharedLimits};
use super::{answer, counted_names, read};

/// Divides limits as the store has them.
pub(crate) struct StoredDivision {
    store: LimitStore,
    objects: Mutex<Objects>,
}

struct Objects {
    served: watch::Receiver<Arc<ServedObjects>>,
    /// By the name under which a cluster counts.
    limits: HashMap<String, SharedLimits>,
}

impl StoredDivision {
    pub(crate) fn new(mut served: watch::Receiver<Arc<ServedObjects>>, store: LimitStore) -> Self {
        let limits = served.borrow_and_update().shared_limits();
        Self { store, objects: Mutex::new(Objects { served, limits }) }
    }

    /// Answers a report with the gateway's parts; with nothing if the store does not answer, or another control plane did.
    pub(super) async fn divide(&self, report: GatewayReport) -> Result<Bytes, UnreadableReport> {
        let (message, clusters) = read(&report.content)?;
        let (known, exchanges) = self.exchanges(&clusters);
        let (process, number) = (message.process, message.number);
        if exchanges.is_empty() {
            // Another control plane may know them.
            return Ok(Bytes::new());
        }
        let bytes = report.content.len();
        let exchange = ProcessReport { node: report.node, process, number, clusters: exchanges, bytes };
        let Some(stored) = self.store.exchange(exchange).await else { return Ok(Bytes::new()) };
        let mut stored = stored.into_iter();
        let answers = clusters.iter().zip(known).flat_map(|(cluster, is_known)| {
            let of_cluster = if is_known { stored.next() } else { None };
            of_cluster.unwrap_or_else(|| vec![None; cluster.uses().count()])
        });
        Ok(answer(number, answers, bytes))
    }

    /// Whether this control plane knows each cluster, and the use of those that it knows.
    fn exchanges(&self, clusters: &[ClusterUseMessage]) -> (Vec<bool>, Vec<ClusterExchange>) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if objects.served.has_changed().unwrap_or(false) {
            let limits = objects.served.borrow_and_update().shared_limits();
            objects.limits = limits;
        }
        let names = counted_names(clusters, &objects.served.borrow());
        let of = |(cluster, name): (&ClusterUseMessage, Option<Cow<'_, str>>)| {
            let SharedLimits { name, limits } = objects.limits.get(&*name?)?.clone();
            let uses = cluster.uses().map(|(schema, used)| (schema.to_owned(), used)).collect();
            Some(ClusterExchange { name, limits, uses })
        };
        let all: Vec<_> = clusters.iter().zip(names).map(of).collect();
        (all.iter().map(Option::is_some).collect(), all.into_iter().flatten().collect())
    }
}

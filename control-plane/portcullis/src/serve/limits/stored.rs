//! All control planes of a store divide limits that gateways share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use portcullis_limits::NodeOwners;
use portcullis_limits_store::{ClusterExchange, LimitStore, ProcessReport};
use portcullis_report::limits::ClusterUseMessage;
use portcullis_xds::{GatewayReport, Membership, UnreadableReport};
use tokio::sync::watch;

use super::super::fleet::{ServedObjects, SharedLimits};
use super::reporters::LimitReporters;
use super::{answer, counted_names, read, refusal};
use crate::boot_time::boot_time;

/// Divides limits as the store has them.
pub(crate) struct StoredDivision {
    store: LimitStore,
    objects: Mutex<Objects>,
    reporters: LimitReporters,
}

struct Objects {
    served: watch::Receiver<Arc<ServedObjects>>,
    limits: Arc<CountedLimits>,
}

/// By the name under which a cluster counts.
type CountedLimits = HashMap<String, SharedLimits>;

impl Objects {
    /// The newest objects and their limits.
    fn newest(&mut self) -> (Arc<ServedObjects>, Arc<CountedLimits>) {
        if self.served.has_changed().unwrap_or(false) {
            let limits = self.served.borrow_and_update().shared_limits();
            self.limits = Arc::new(limits);
        }
        (self.served.borrow().clone(), Arc::clone(&self.limits))
    }
}

impl StoredDivision {
    pub(crate) fn new(mut served: watch::Receiver<Arc<ServedObjects>>, store: LimitStore, owners: NodeOwners) -> Self {
        let limits = Arc::new(served.borrow_and_update().shared_limits());
        let (objects, reporters) = (Mutex::new(Objects { served, limits }), LimitReporters::new(owners));
        Self { store, objects, reporters }
    }

    /// Answers a report with the gateway's parts; with nothing if the store does not answer, or another control plane did.
    pub(super) async fn divide(&self, report: GatewayReport) -> Result<Bytes, UnreadableReport> {
        let bytes = report.content.len();
        let (message, clusters) = read(&report.content)?;
        let (process, number) = (message.process, message.number);
        let (known, exchanges) = self.exchanges(&report.membership, &clusters);
        if exchanges.is_empty() {
            // Another control plane may know them.
            return Ok(Bytes::new());
        }
        if !self.reporters.admit(&report.node, process, boot_time()) {
            return Ok(refusal(number, &clusters, bytes));
        }
        // A report waits with the limits that objects have, however long it is.
        drop((message, clusters));
        let exchange = ProcessReport { node: report.node, process, number, clusters: exchanges, bytes };
        let Some(stored) = self.store.exchange(exchange).await else { return Ok(Bytes::new()) };
        let mut stored = stored.into_iter().flatten();
        let answers = known.into_iter().map(|is_known| if is_known { stored.next().flatten() } else { None });
        Ok(answer(number, answers, bytes))
    }

    /// Whether this control plane knows each limit of a report and the gateway may have a part of it, and the use of those.
    fn exchanges(&self, membership: &Membership, clusters: &[ClusterUseMessage]) -> (Vec<bool>, Vec<ClusterExchange>) {
        // The lock is not held while a report is read: it may be long, and others wait.
        let (served, limits) = self.objects.lock().unwrap_or_else(PoisonError::into_inner).newest();
        let (mut known, mut exchanges) = (Vec::new(), Vec::new());
        let names = counted_names(clusters, &served);
        for (cluster, name) in clusters.iter().zip(names) {
            let object = name.and_then(|name| limits.get(&*name));
            let object = object.filter(|object| served.may_report(membership, &object.object));
            let is_known = |schema: &str| object.is_some_and(|object| object.limits.contains_key(schema));
            known.extend(cluster.uses().map(|(schema, _)| is_known(schema)));
            let uses = cluster.uses().filter(|(schema, _)| is_known(schema));
            let uses: Vec<_> = uses.map(|(schema, used)| (schema.to_owned(), used)).collect();
            if let Some(SharedLimits { name, limits, .. }) = object.cloned().filter(|_| !uses.is_empty()) {
                exchanges.push(ClusterExchange { name, limits, uses });
            }
        }
        (known, exchanges)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use portcullis_filter_config::limits::PartUse;
    use portcullis_limits_store::{StoreAddress, StoreFiles};
    use portcullis_report::limits::encode_use;
    use serde_json::json;

    use super::super::super::fleet::ServedObjectCache;
    use super::super::owners::node_owners;
    use super::*;

    #[tokio::test]
    async fn report_without_limits_of_its_own_takes_no_place() {
        let (_served, objects) = watch::channel(Arc::default());
        let owners = node_owners(Some("portcullis".to_owned()));
        let address: StoreAddress = "redis://127.0.0.1:1".parse().unwrap();
        let store = LimitStore::start(address, StoreFiles::default(), "portcullis".to_owned(), owners.clone());
        let division = StoredDivision::new(objects, store, owners);
        for team in 0..400 {
            let gateway = format!("team-{team}/edge");
            let report = GatewayReport {
                node: format!("gateway:{gateway}/envoy"),
                membership: Membership::Bound([gateway].into()),
                instance: String::new(),
                content: encode_use(1, 1, [("lab/-/c.example.com", "few", PartUse::default())]).into(),
            };
            assert!(division.divide(report).await.unwrap().is_empty());
        }
        assert!(division.reporters.admit("gateway:infra/edge/envoy", 1, boot_time()));
    }

    #[tokio::test]
    async fn report_waits_with_what_objects_have_limits_for() {
        let schema = json!({"name": "few", "strategy": "globalAllocate", "maxRequestsInflight": {"max": 1},
            "globalMaxRequestsInflight": {"max": 9}});
        let document = json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
            "metadata": {"name": "c.example.com"},
            "spec": {"servers": [{"endpoint": "https://10.0.0.1:6443"}], "flowControl": {"flowControlSchemas": [schema]}},
        });
        let documents = BTreeMap::from([("c.example.com".to_owned(), Arc::new(document))]);
        let (sender, served) = watch::channel(Arc::new(ServedObjectCache::default().read("lab", &documents)));
        let address: StoreAddress = "redis://127.0.0.1:1".parse().unwrap();
        let owners = NodeOwners::default();
        let store = LimitStore::start(address, StoreFiles::default(), "portcullis".to_owned(), owners.clone());
        let division = StoredDivision::new(served, store, owners);
        let mut clusters = Vec::new();
        for (cluster, schemas) in [("lab/-/a", vec!["few"]), ("lab/-/c.example.com", vec!["a", "few", "z"])] {
            let mut message = ClusterUseMessage { cluster: cluster.to_owned(), ..ClusterUseMessage::default() };
            schemas.into_iter().for_each(|schema| message.push(schema, PartUse::default()));
            clusters.push(message);
        }
        let (known, exchanges) = division.exchanges(&Membership::Free, &clusters);
        assert_eq!(known, [false, false, true, false]);
        let uses: Vec<_> =
            exchanges.iter().flat_map(|one| one.uses.iter().map(|(schema, _)| schema.as_str())).collect();
        assert_eq!((exchanges.len(), uses), (1, vec!["few"]));
        let edge = || Membership::Bound(["infra/edge".to_owned()].into());
        assert!(division.exchanges(&edge(), &clusters).1.is_empty(), "no view of a Gateway has it");
        let at_edge = BTreeMap::from([("infra/edge".to_owned(), Arc::new(["c.example.com".to_owned()].into()))]);
        let at_edge = ServedObjectCache::default().read("lab", &documents).requested_at(Arc::new(at_edge));
        sender.send_replace(Arc::new(at_edge));
        assert_eq!(division.exchanges(&edge(), &clusters).0, [false, false, true, false]);
        let foreign = Membership::Instances(["a".to_owned()].into());
        let (known, exchanges) = division.exchanges(&foreign, &clusters);
        assert!(exchanges.is_empty() && !known.contains(&true), "the object is no instance's");
    }
}

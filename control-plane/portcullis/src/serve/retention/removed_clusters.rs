use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use portcullis_api::Settings;
use portcullis_translate::{FilterBuild, Resource, tombstone_routes};
use serde_json::Value;

use super::Documents;

/// The number of removed objects that are remembered, the latest ones.
const MAX_REMOVED: usize = 256;

/// Removed objects, served as routes without destinations (tombstones) so that Envoy ends their remaining streams after the
/// drain period.
///
/// No clock: a tombstone that is no longer needed costs a few kilobytes.
#[derive(Debug, Default)]
pub(super) struct RemovedClusters {
    removed: VecDeque<RemovedCluster>,
    /// The settings that the tombstones were made with.
    settings: Option<Settings>,
}

#[derive(Debug)]
struct RemovedCluster {
    name: String,
    document: Value,
    tombstones: BTreeMap<FilterBuild, Option<Arc<Resource>>>,
}

impl RemovedClusters {
    /// Compares the documents that were served before with those that are served now.
    pub(super) fn record(&mut self, before: Documents, now: &Documents) {
        self.removed.retain(|removed| !now.contains_key(&removed.name));
        let removed = before.into_iter().filter(|(name, _)| !now.contains_key(name));
        self.removed.extend(removed.map(|(name, document)| RemovedCluster {
            name,
            document: without_keys(&document),
            tombstones: BTreeMap::new(),
        }));
        while self.removed.len() > MAX_REMOVED {
            self.removed.pop_front();
        }
    }

    /// The tombstones for Envoys with this build of the filter.
    pub(super) fn tombstones(
        &mut self,
        settings: &Settings,
        filter: FilterBuild,
    ) -> impl Iterator<Item = Arc<Resource>> {
        if self.settings.as_ref() != Some(settings) {
            self.settings = Some(settings.clone());
            self.removed.iter_mut().for_each(|removed| removed.tombstones.clear());
        }
        self.removed.iter_mut().filter_map(move |removed| {
            let RemovedCluster { document, tombstones, .. } = removed;
            let make = || tombstone_routes(document, settings, filter).map(Arc::new);
            tombstones.entry(filter).or_insert_with(make).clone()
        })
    }
}

/// The document without the keys of the object, which nothing needs any more.
fn without_keys(document: &Value) -> Value {
    let mut document = document.clone();
    if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("clientConfig");
        if let Some(serving) = spec.get_mut("secureServing").and_then(Value::as_object_mut) {
            serving.remove("keyData");
            serving.remove("certData");
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn documents(names: &[String]) -> Documents {
        let object = |name: &String| {
            json!({
                "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": name},
                "spec": {
                    "servers": [{"endpoint": "https://10.0.0.1"}],
                    "clientConfig": {"insecure": true, "bearerToken": "VE9QU0VDUkVU"},
                    "secureServing": {"keyData": "VE9QU0VDUkVU"},
                    "dispatchPolicies": [{"rules": [{"verbs": ["get"], "nonResourceURLs": ["/"]}]}],
                },
            })
        };
        names.iter().map(|name| (name.clone(), Arc::new(object(name)))).collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn tombstones(removed: &mut RemovedClusters) -> Vec<String> {
        removed
            .tombstones(&Settings::default(), FilterBuild::Module)
            .map(|resource| resource.name.to_string())
            .collect()
    }

    #[test]
    fn tombstone_lasts_until_the_object_is_back_and_holds_no_key() {
        let mut removed = RemovedClusters::default();
        removed.record(documents(&names(&["a.test", "b.test"])), &documents(&names(&["b.test"])));
        assert_eq!(tombstones(&mut removed), ["portcullis/-/a.test/routes"]);
        let debug = format!("{removed:?}");
        assert!(!debug.contains("VE9QU0VDUkVU") && !debug.contains("TOPSECRET"), "{debug}");
        removed.record(documents(&names(&["b.test"])), &documents(&names(&["a.test", "b.test"])));
        assert!(tombstones(&mut removed).is_empty());
    }

    #[test]
    fn tombstones_are_bounded_and_the_latest_stay() {
        let mut removed = RemovedClusters::default();
        for round in 0..3 {
            let many: Vec<_> = (0..200).map(|number| format!("c{round}-{number}.test")).collect();
            removed.record(documents(&many), &Documents::new());
        }
        assert_eq!(removed.removed.len(), MAX_REMOVED);
        assert!(tombstones(&mut removed).iter().any(|name| name.contains("c2-199")));
    }
}

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use portcullis_api::Settings;
use portcullis_translate::{FilterBuild, Resource, tombstone_routes};
use serde_json::Value;

use super::documents::Documents;

/// So many removed objects are remembered, the latest ones.
const MOST: usize = 256;

/// Objects that were served and are not any more. Envoy is told once more of each, so that streams which still run end
/// after the drain period.
///
/// No clock: a farewell that nobody needs costs a few kilobytes. A control plane that restarts has forgotten them; what
/// Envoy had heard by then holds.
#[derive(Debug, Default)]
pub(super) struct Departed {
    gone: VecDeque<Gone>,
    under: Option<Settings>,
}

#[derive(Debug)]
struct Gone {
    name: String,
    document: Value,
    told: BTreeMap<FilterBuild, Option<Arc<Resource>>>,
}

impl Departed {
    /// Compares what was served before with what is served now, by name.
    pub(super) fn follow(&mut self, before: Documents, now: &Documents) {
        self.gone.retain(|gone| !now.contains_key(&gone.name));
        let gone = before.into_iter().filter(|(name, _)| !now.contains_key(name));
        let gone = gone.map(|(name, document)| Gone { name, document: without_keys(&document), told: BTreeMap::new() });
        self.gone.extend(gone);
        while self.gone.len() > MOST {
            self.gone.pop_front();
        }
    }

    /// What Envoy is told of them.
    pub(super) fn resources(
        &mut self,
        settings: &Settings,
        filter: FilterBuild,
    ) -> impl Iterator<Item = Arc<Resource>> {
        if self.under.as_ref() != Some(settings) {
            self.under = Some(settings.clone());
            self.gone.iter_mut().for_each(|gone| gone.told.clear());
        }
        self.gone.iter_mut().filter_map(move |gone| {
            let Gone { document, told, .. } = gone;
            let make = || tombstone_routes(document, settings, filter).map(Arc::new);
            told.entry(filter).or_insert_with(make).clone()
        })
    }
}

/// The keys of an object that is gone are nobody's to keep.
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

    fn set(names: &[String]) -> Documents {
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

    fn told(departed: &mut Departed) -> Vec<String> {
        departed.resources(&Settings::default(), FilterBuild::Module).map(|resource| resource.name.clone()).collect()
    }

    #[test]
    fn what_is_gone_is_told_until_it_is_back_and_without_its_keys() {
        let mut departed = Departed::default();
        departed.follow(set(&names(&["a.test", "b.test"])), &set(&names(&["b.test"])));
        assert_eq!(told(&mut departed), ["portcullis/-/a.test/routes"]);
        let shown = format!("{departed:?}");
        assert!(!shown.contains("VE9QU0VDUkVU") && !shown.contains("TOPSECRET"), "{shown}");
        departed.follow(set(&names(&["b.test"])), &set(&names(&["a.test", "b.test"])));
        assert!(told(&mut departed).is_empty());
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut departed = Departed::default();
        for round in 0..3 {
            let many: Vec<_> = (0..200).map(|number| format!("c{round}-{number}.test")).collect();
            departed.follow(set(&many), &Documents::new());
        }
        assert_eq!(departed.gone.len(), MOST);
        assert!(told(&mut departed).iter().any(|name| name.contains("c2-199")));
    }
}

//! `UpstreamClusters` to which routes may not lead, by the checks of the control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{Problem, Settings, Transport, parse_cluster, unchecked_cluster};
use portcullis_translate::{Diagnosis, NO_REQUESTS, ResolvedUpstream, passage_diagnosis};
use serde_json::Value;

use super::assumed::Assumptions;
use super::closures::TranslatedObjects;

/// The clusters that are accepted, each with the settings of its instance.
pub(super) struct RoutedClusters<'a> {
    documents: BTreeMap<&'a str, &'a Arc<Value>>,
    settings: &'a Settings,
    assumed: &'a Assumptions<'a>,
}

impl<'a> RoutedClusters<'a> {
    /// Those of documents with their diagnoses. `settings` are those of all gateways.
    pub(super) fn of(
        documents: &'a [Arc<Value>],
        diagnoses: &'a [Diagnosis],
        settings: &'a Settings,
        assumed: &'a Assumptions<'a>,
    ) -> Self {
        let accepted = diagnoses.iter().zip(documents).filter(|(one, _)| one.accepted || one.problems.is_empty());
        let mut by_name = BTreeMap::new();
        for (diagnosis, document) in accepted {
            by_name.entry(diagnosis.name.as_str()).or_insert(document);
        }
        Self { documents: by_name, settings, assumed }
    }

    /// The input of a translation of Gateways, with these upstreams by their keys.
    pub(super) fn translated(&self, upstreams: BTreeMap<String, Arc<ResolvedUpstream>>) -> TranslatedObjects<'a> {
        let clusters = self.documents.iter().map(|(name, document)| ((*name).to_owned(), Arc::clone(document)));
        let (settings, instances) = (self.settings, self.assumed.instances);
        TranslatedObjects { clusters: clusters.collect(), upstreams, settings, instances }
    }

    /// Of these clusters those to which no connection may be passed on, and why.
    pub(super) fn without_connections(&self, names: &BTreeSet<String>) -> BTreeMap<String, String> {
        let refused = |name: &String| {
            let document = self.documents.get(name.as_str())?;
            let settings = self.assumed.instances.own_settings(name).unwrap_or(self.settings);
            let diagnosis = self.assumed.apply(passage_diagnosis(document, name, settings));
            let why = diagnosis.problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ");
            (!why.is_empty()).then(|| (name.clone(), why))
        };
        names.iter().filter_map(refused).collect()
    }

    /// Of these clusters those to which no request may be sent, and why.
    pub(super) fn without_requests(&self, names: &BTreeSet<String>) -> BTreeMap<String, String> {
        let is_passed_on = |name: &&String| {
            let document = self.documents.get(name.as_str());
            let raw = document.and_then(|document| parse_cluster(document).ok());
            let cluster = raw.and_then(|raw| unchecked_cluster(&raw));
            cluster.is_some_and(|cluster| cluster.transport == Transport::Passthrough)
        };
        names.iter().filter(is_passed_on).map(|name| (name.clone(), NO_REQUESTS.to_owned())).collect()
    }
}

//! The names on which the verdicts of a step depend beside the objects of the Gateway API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::status::Served;
use portcullis_api::{CLUSTER_KIND, SETTINGS_KIND};
use portcullis_attach::{DoorPolicies, FormerCertificates, Inventory, UnseenKinds, UpstreamPolicies, Usability};
use portcullis_gateway_api::NAMESPACE_NAME_LABEL;
use portcullis_sources::{GatewayApiObjects, StoredStatus, StoredStatuses, WatchedKind};
use portcullis_translate::{Diagnosis, RefusedClusters};
use serde_json::Value;

use super::super::instance_views::InstanceStates;
use super::super::source::SettingsOrigin;
use super::name_of;
use super::secrets::GatewayContents;
use super::upstreams::KnownUpstreams;
use crate::gateway_objects::{NOT_USED, service_ports};

/// The names on which a step depends beside the objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReferredNames {
    pub(super) clusters: BTreeMap<String, BTreeSet<String>>,
    pub(super) settings: BTreeMap<String, Usability>,
    /// Whether no settings were accepted since this program started: nothing is translated, and Gateways stay as they were served.
    pub(super) lacks_settings: bool,
    /// Clusters to which routes may not lead, and why.
    pub(super) refused_clusters: Arc<RefusedClusters>,
    /// Certificates of listeners.
    pub(super) contents: Arc<GatewayContents>,
    /// Those that listeners keep for a time.
    pub(super) former_certificates: FormerCertificates,
    /// Policies at Gateways, listeners and `HTTPRoutes`.
    pub(super) door_policies: Arc<DoorPolicies>,
    /// Policies of `KubernetesUpstreams`.
    pub(super) upstream_policies: Arc<UpstreamPolicies>,
    /// The owners of Gateways and clusters.
    pub(super) instances: Arc<InstanceStates>,
}

/// None before the first step while an `UpstreamCluster` of the source is not reconciled: names that it owns would be another
/// route's. Without settings none is reconciled, and names that they were given before are in their status.
pub(super) fn names(
    diagnoses: &[Arc<Diagnosis>],
    statuses: &StoredStatuses,
    used: &SettingsOrigin,
    has_judged: bool,
) -> Option<ReferredNames> {
    if ![WatchedKind::UpstreamCluster, WatchedKind::GatewaySettings].into_iter().all(|kind| statuses.is_listed(kind)) {
        return None;
    }
    let owned = |one: &Arc<Diagnosis>| (one.name.clone(), one.names.iter().cloned().collect());
    let mut clusters: BTreeMap<String, BTreeSet<String>> =
        diagnoses.iter().filter(|one| one.kind == CLUSTER_KIND).map(owned).collect();
    // Settings of instances have diagnoses, too, and decide about no other's objects.
    let of_all = |one: &&Arc<Diagnosis>| {
        let is_used = !matches!(used, SettingsOrigin::Object(used) if *used != one.name);
        one.kind == SETTINGS_KIND && is_used
    };
    let used_settings = diagnoses.iter().find(of_all);
    // They are diagnosed before all else. Without that it is not known whether a class has its settings.
    if !has_judged && used_settings.is_none() && matches!(used, SettingsOrigin::Object(_)) {
        return None;
    }
    let has_no_settings = used_settings.is_some_and(|one| !one.accepted);
    let mut stored = statuses.of(WatchedKind::UpstreamCluster);
    if !has_judged && !has_no_settings && stored.any(|(key, _)| !clusters.contains_key(&key.name)) {
        return None;
    }
    // One that is not reconciled yet is there all the same.
    for (key, stored) in statuses.of(WatchedKind::UpstreamCluster) {
        clusters.entry(key.name.clone()).or_insert_with(|| names_given(stored));
    }
    let of_used = || match used_settings.filter(|one| !one.accepted) {
        None => Usability::Usable,
        Some(refused) if refused.version.served == Served::Nothing => Usability::Malformed(refused.message.clone()),
        Some(refused) => Usability::Former(refused.message.clone()),
    };
    let usability = |name: String| {
        let is_used = matches!(used, SettingsOrigin::Object(used) if *used == name);
        let usability = if is_used { of_used() } else { Usability::Malformed(NOT_USED.to_owned()) };
        (name, usability)
    };
    let settings = statuses.of(WatchedKind::GatewaySettings).map(|(key, _)| usability(key.name.clone())).collect();
    let is_object = matches!(used, SettingsOrigin::Object(_));
    let is_unusable = |one: &Arc<Diagnosis>| !one.accepted && one.version.served == Served::Nothing;
    let lacks_settings = is_object && used_settings.is_some_and(is_unusable);
    Some(ReferredNames { clusters, settings, lacks_settings, ..ReferredNames::default() })
}

/// The host names that the status of an `UpstreamCluster` says are its own.
fn names_given(stored: &StoredStatus) -> BTreeSet<String> {
    let names = stored.status.get("names").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The inventory of a step.
pub(super) fn inventory(
    objects: &GatewayApiObjects,
    names: ReferredNames,
    home_namespace: String,
    upstreams: &KnownUpstreams,
) -> Inventory {
    let labels = |document: &Arc<Value>| {
        let name = name_of(document).name;
        let labels = document.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        // The API server sets it.
        let labels: BTreeMap<String, String> =
            labels.chain([(NAMESPACE_NAME_LABEL.to_owned(), name.clone())]).collect();
        (name, labels)
    };
    let ports = |document: &Arc<Value>| (name_of(document), service_ports(document));
    // Those that were left out may be referred to.
    let unseen = UnseenKinds {
        services: !objects.has_all(WatchedKind::Service),
        namespaces: !objects.has_all(WatchedKind::Namespace),
    };
    Inventory {
        is_complete: true,
        unseen,
        home_namespace,
        secrets: names.contents.secrets(),
        config_maps: names.contents.config_maps(),
        services: objects.of(WatchedKind::Service).map(ports).collect(),
        namespaces: objects.of(WatchedKind::Namespace).map(labels).collect(),
        clusters: names.clusters,
        judging_clusters: names.refused_clusters.connections.clone(),
        passing_clusters: names.refused_clusters.requests.clone(),
        upstreams: upstreams.states(),
        settings: names.settings,
        owners: names.instances.settled.clone(),
        former_certificates: names.former_certificates,
        former_holders: Arc::default(),
        listed_holders: Arc::default(),
        door_policies: Arc::unwrap_or_clone(names.door_policies),
        upstream_policies: Arc::unwrap_or_clone(names.upstream_policies),
        unfit_policies: names.refused_clusters.policies.clone(),
    }
}

#[cfg(test)]
mod tests {
    use portcullis_sources::ObjectKey;
    use portcullis_translate::{Reason, Version};
    use serde_json::json;

    use super::*;

    const CLUSTER: WatchedKind = WatchedKind::UpstreamCluster;
    const SETTINGS: WatchedKind = WatchedKind::GatewaySettings;

    /// With a status that has a name.
    fn stored(names: &[(WatchedKind, &str)]) -> StoredStatuses {
        let status = json!({"names": ["old.test"]});
        let one = |(kind, name): &(WatchedKind, &str)| {
            let stored = StoredStatus { status: status.clone(), ..StoredStatus::default() };
            (ObjectKey::cluster_scoped(*kind, *name), stored)
        };
        names.iter().map(one).collect()
    }

    fn diagnosis(kind: &str, name: &str, accepted: bool) -> Arc<Diagnosis> {
        Arc::new(Diagnosis {
            kind: kind.to_owned(),
            name: name.to_owned(),
            at: None,
            accepted,
            reason: if accepted { Reason::Accepted } else { Reason::Invalid },
            message: String::new(),
            warnings: Vec::new(),
            problems: Vec::new(),
            cautions: Vec::new(),
            shadow: None,
            names: vec!["new.test".to_owned()],
            version: Version::default(),
        })
    }

    fn owned(found: Option<ReferredNames>) -> Option<String> {
        found.map(|found| format!("{:?}", found.clusters))
    }

    #[test]
    fn step_waits_until_clusters_are_reconciled() {
        let used = SettingsOrigin::Files;
        assert_eq!(names(&[], &stored(&[]), &used, false), None, "the lists are not complete");
        assert_eq!(names(&[], &stored(&[(CLUSTER, "a")]), &used, false), None, "no settings are listed");
        let both = stored(&[(CLUSTER, "a"), (SETTINGS, "s")]);
        assert_eq!(names(&[], &both, &used, false), None);
        let reconciled = [diagnosis(CLUSTER_KIND, "a", true)];
        assert_eq!(owned(names(&reconciled, &both, &used, false)).unwrap(), r#"{"a": {"new.test"}}"#);
        assert_eq!(owned(names(&[], &both, &used, true)).unwrap(), r#"{"a": {"old.test"}}"#);
    }

    #[test]
    fn clusters_keep_their_names_without_any_settings() {
        let both = stored(&[(CLUSTER, "a"), (SETTINGS, "s")]);
        let used = SettingsOrigin::Object("absent".to_owned());
        let refused = [diagnosis(SETTINGS_KIND, "absent", false)];
        let found = names(&refused, &both, &used, false).unwrap();
        assert_eq!(found.settings.keys().collect::<Vec<_>>(), ["s"]);
        assert_eq!(owned(Some(found)).unwrap(), r#"{"a": {"old.test"}}"#);
    }

    #[test]
    fn refused_settings_are_usable_as_they_were_accepted_last() {
        let both = stored(&[(CLUSTER, "a"), (SETTINGS, "edge")]);
        let used = SettingsOrigin::Object("edge".to_owned());
        let refused = |served| {
            let mut diagnosis = Diagnosis::clone(&diagnosis(SETTINGS_KIND, "edge", false));
            diagnosis.message = "spec.x: is wrong".to_owned();
            diagnosis.version.served = served;
            let found = names(&[Arc::new(diagnosis)], &both, &used, true).unwrap();
            (found.settings["edge"].clone(), found.lacks_settings)
        };
        let why = || "spec.x: is wrong".to_owned();
        assert_eq!(refused(Served::Nothing), (Usability::Malformed(why()), true));
        assert_eq!(refused(Served::Older(Some(1))), (Usability::Former(why()), false));
    }

    #[test]
    fn settings_in_use_alone_are_usable() {
        let both = stored(&[(CLUSTER, "a"), (SETTINGS, "edge"), (SETTINGS, "other")]);
        // Those of an instance decide about no class.
        let of_instance = [diagnosis(SETTINGS_KIND, "other", false)];
        let usable = |used: SettingsOrigin| {
            let found = names(&of_instance, &both, &used, true).unwrap();
            assert!(!found.lacks_settings);
            let settings = found.settings;
            let usable = settings.into_iter().filter(|(_, one)| *one == Usability::Usable).map(|(name, _)| name);
            usable.collect::<Vec<_>>()
        };
        assert_eq!(usable(SettingsOrigin::Object("edge".to_owned())), ["edge"]);
        assert_eq!(usable(SettingsOrigin::Files), [""; 0]);
        let used = SettingsOrigin::Object("edge".to_owned());
        assert_eq!(names(&of_instance, &stored(&[(SETTINGS, "edge")]), &used, false), None, "not diagnosed yet");
    }
}

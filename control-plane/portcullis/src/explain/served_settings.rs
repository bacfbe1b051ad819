//! The settings by which each cluster is served: those of its instance, or those of all gateways.

use std::sync::Arc;

use portcullis_api::{Settings, without_references};
use portcullis_instances::{JudgedInstance, MemberHolder, Settlement};
use portcullis_sources::ObjectSet;
use portcullis_translate::choose_settings;
use serde::Serialize;
use serde_json::Value;

use super::error::EnvironmentError;
use crate::client_ca::check_client_ca;
use crate::divided_objects::DividedObjects;
use crate::spanning_policies::SpanningPolicies;

/// The settings of all gateways, and those of instances.
#[derive(Debug)]
pub(crate) struct ServedSettings {
    shared: Settings,
    /// `None` without instances.
    divided: Option<DividedObjects>,
}

/// The instance to which a cluster belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct InstanceAnswer {
    /// Null if it belongs to none.
    pub(crate) name: Option<String>,
    /// The `GatewaySettings` by which its Envoys are served; null for those of all gateways.
    pub(crate) settings: Option<String>,
    /// Why.
    pub(crate) reason: String,
}

/// Settings, and whose they are.
pub(crate) struct ClusterSettings<'a> {
    pub(crate) settings: &'a Settings,
    /// `None` without instances.
    pub(crate) instance: Option<InstanceAnswer>,
}

impl ServedSettings {
    /// Those of a set. Wrong settings of all are an error, as defaults could hide protected identities.
    pub(crate) fn of(objects: &ObjectSet) -> Result<Self, String> {
        let shared = shared(objects)?;
        // The content of referenced files is not at hand, and no request depends on it.
        let known = |document: &Arc<Value>| Arc::new(without_references(document).0);
        let divided = (!objects.instances.is_empty()).then(|| {
            let documents: Vec<Arc<Value>> = objects.instance_settings.iter().map(known).collect();
            DividedObjects::of(objects, &documents, &shared)
        });
        Ok(Self { shared, divided })
    }

    /// The settings of all gateways.
    pub(crate) fn shared(&self) -> &Settings {
        &self.shared
    }

    /// The owners of clusters and Gateways.
    pub(crate) fn owners(&self) -> Settlement {
        self.divided.as_ref().map(|divided| divided.settled.clone()).unwrap_or_default()
    }

    /// As [`DividedObjects::refuse_spanning`].
    pub(crate) fn refuse_spanning(&self, clusters: &mut [Arc<Value>]) -> SpanningPolicies {
        self.divided.as_ref().map(|divided| divided.refuse_spanning(clusters)).unwrap_or_default()
    }

    /// Instances that are refused, for their author.
    pub(super) fn problems(&self) -> Vec<String> {
        let judged = self.divided.iter().flat_map(|divided| &divided.judged);
        let problem = |one: &JudgedInstance| {
            let first = one.outcome.as_ref().err()?.first()?;
            Some(format!("Instance {} would be refused: {first}", one.name))
        };
        judged.filter_map(problem).collect()
    }

    /// The settings of a cluster. `known` are its instances if they are known otherwise than by the objects: its holder first, none for
    /// one that belongs to none.
    pub(crate) fn of_cluster(
        &self,
        name: &str,
        document: &Value,
        known: Option<&[String]>,
    ) -> Result<ClusterSettings<'_>, EnvironmentError> {
        let Some(divided) = &self.divided else {
            return Ok(ClusterSettings { settings: &self.shared, instance: None });
        };
        let holder = match known {
            Some(known) => known.first().map_or(MemberHolder::Free, |one| MemberHolder::Instance(one.clone())),
            None => divided.holder(name).cloned().unwrap_or(MemberHolder::Free),
        };
        let none = |reason: &str| InstanceAnswer { name: None, settings: None, reason: reason.to_owned() };
        let (settings, instance) = match &holder {
            MemberHolder::Free if known.is_some() => (None, none("the control plane knows no Instance that has it")),
            MemberHolder::Free => (None, none("no Instance selects its labels; Envoys of none serve it")),
            MemberHolder::Nobody => {
                (None, none("no Envoy serves it: a refused Instance may select its labels, and no other one does"))
            }
            MemberHolder::Instance(instance) => {
                if let Some(problem) = divided.settings_problem(instance) {
                    return Err(EnvironmentError::Instance(instance.clone(), problem.clone()));
                }
                let own = divided.own.get(instance);
                let reason = selected_reason(divided, instance, document, known.is_some());
                let answer =
                    InstanceAnswer { name: Some(instance.clone()), settings: own.map(|own| own.name.clone()), reason };
                (own.map(|own| own.settings.as_ref()), answer)
            }
        };
        Ok(ClusterSettings { settings: settings.unwrap_or(&self.shared), instance: Some(instance) })
    }
}

/// The reason for which an instance has a cluster.
fn selected_reason(divided: &DividedObjects, instance: &str, document: &Value, is_known: bool) -> String {
    if is_known {
        return "the control plane's owner of it".to_owned();
    }
    let others: Vec<&str> = divided.that_select(document).filter(|one| *one != instance).collect();
    match others.as_slice() {
        [] => "it alone selects the labels".to_owned(),
        others => format!(
            "it is the oldest that selects the labels; a control plane leaves the cluster to the one that has had it: {}{}",
            others.join(", "),
            undated(divided, instance, others)
        ),
    }
}

/// The words about instances of files without a time: among these the name decides.
fn undated(divided: &DividedObjects, instance: &str, others: &[&str]) -> String {
    let is_meant = |one: &&JudgedInstance| one.name == instance || others.contains(&one.name.as_str());
    let has_no_time =
        |one: &&JudgedInstance| one.outcome.as_ref().is_ok_and(|checked| checked.creation_timestamp.is_none());
    let names: Vec<&str> =
        divided.judged.iter().filter(is_meant).filter(has_no_time).map(|one| one.name.as_str()).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("; without a creationTimestamp the name decides: {}", names.join(", ")),
    }
}

/// The settings of all gateways.
fn shared(objects: &ObjectSet) -> Result<Settings, String> {
    let known: Vec<Value> = objects.settings.iter().map(|document| without_references(document).0).collect();
    let choice = choose_settings(&known, Some(check_client_ca));
    let problems = || {
        let problems = choice.diagnoses.iter().flat_map(|diagnosis| &diagnosis.problems);
        let text = problems.map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let hint = " (hint: --settings-name says which are of all gateways; others are for Instances that name them)";
        if objects.settings.len() > 1 { text + hint } else { text }
    };
    choice.settings.ok_or_else(problems)
}

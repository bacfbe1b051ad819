//! Instances among objects of files, for commands that read these: the owner of everything, and the settings of each owner's Envoys.
//! Files have no history: of several that select the same the oldest has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{Problem, Settings};
use portcullis_instances::{
    Entitlement, InstanceObjects, JudgedInstance, Member, MemberHolder, MemberName, Settlement, judge_instances,
    labels_of, settle,
};
use portcullis_sources::ObjectSet;
use portcullis_translate::Diagnosis;
use serde_json::Value;

use crate::instance_settings::{NamedSettings, named_settings};
use crate::spanning_policies::{SpanningPolicies, spanning_policies, without_spanning};

/// All instances, and the owners of everything.
#[derive(Debug, Default)]
pub(crate) struct DividedObjects {
    /// In the order of the set.
    pub(crate) judged: Vec<JudgedInstance>,
    /// The owners.
    pub(crate) settled: Settlement,
    /// The settings of instances with some of their own that are accepted, by the instance's name.
    pub(crate) own: BTreeMap<String, OwnSettings>,
    /// The diagnoses of the documents that instances name, by their places among all.
    pub(crate) named: BTreeMap<usize, Diagnosis>,
}

/// The settings of an instance's Envoys.
#[derive(Clone, Debug)]
pub(crate) struct OwnSettings {
    /// Their form, with the fields that are those of all.
    pub(crate) settings: Arc<Settings>,
    /// The name of the `GatewaySettings`.
    pub(crate) name: String,
    /// The place of the document among all that instances may name.
    pub(crate) document: usize,
}

impl DividedObjects {
    /// Those of a set. `documents` are the `GatewaySettings` that instances may name, `shared` the settings of all gateways.
    pub(crate) fn of(objects: &ObjectSet, documents: &[Arc<Value>], shared: &Settings) -> Self {
        let mut judged = judge_instances(objects.instances.iter().map(AsRef::as_ref), &shared.instance);
        let settled = settled(objects, &judged);
        let (mut own, mut named) = (BTreeMap::new(), BTreeMap::new());
        for instance in &mut judged {
            let name = instance.outcome.as_ref().ok().and_then(|checked| checked.settings.clone());
            let Some(name) = name else { continue };
            let NamedSettings { outcome, diagnosis } = named_settings(&name, documents, shared);
            let document = diagnosis.as_ref().map(|(document, _)| *document);
            named.extend(diagnosis);
            match (outcome, document) {
                (Ok(settings), Some(document)) => {
                    let settings = OwnSettings { settings: Arc::new(settings), name, document };
                    own.insert(instance.name.clone(), settings);
                }
                (Err(problem), _) => instance.settings_problem = Some(problem),
                // Settings are of a document.
                (Ok(_), None) => {}
            }
        }
        Self { judged, settled, own, named }
    }

    /// The holder of a cluster; `None` if it is not among the objects.
    pub(crate) fn holder(&self, cluster: &str) -> Option<&MemberHolder> {
        self.settled.owners.get(&MemberName::cluster(cluster)).map(|owner| &owner.holder)
    }

    /// The instance of a cluster.
    pub(crate) fn instance(&self, cluster: &str) -> Option<&str> {
        self.holder(cluster)?.instance()
    }

    /// The settings of a cluster's instance, if it has some of its own.
    pub(crate) fn own_settings(&self, cluster: &str) -> Option<&OwnSettings> {
        self.own.get(self.instance(cluster)?)
    }

    /// Why the settings that an instance names are not used.
    pub(crate) fn settings_problem(&self, instance: &str) -> Option<&Problem> {
        self.judged.iter().find(|one| one.name == instance)?.settings_problem.as_ref()
    }

    /// The instances that select an object by its labels.
    pub(crate) fn that_select(&self, document: &Value) -> impl Iterator<Item = &str> {
        let labels = labels_of(document);
        let selects = move |one: &&JudgedInstance| {
            let clusters = one.outcome.as_ref().ok().and_then(|checked| checked.clusters.as_ref());
            clusters.is_some_and(|selector| selector.selects(&labels))
        };
        self.judged.iter().filter(selects).map(|one| one.name.as_str())
    }

    /// Refuses the documents for which a policy decides whose targets belong to several owners. Returns all such policies.
    pub(crate) fn refuse_spanning(&self, clusters: &mut [Arc<Value>]) -> SpanningPolicies {
        let spanning = spanning_policies(clusters, &self.settled);
        for document in clusters {
            if let Some(refused) = without_spanning(document, &spanning) {
                *document = Arc::new(refused);
            }
        }
        spanning
    }
}

fn settled(objects: &ObjectSet, judged: &[JudgedInstance]) -> Settlement {
    let clusters =
        objects.clusters.iter().map(|document| (MemberName::cluster(text(document, "/metadata/name")), document));
    let is_gateway = |document: &&Arc<Value>| text(document, "/kind") == "Gateway";
    let gateways = objects.others.iter().filter(is_gateway).map(|document| {
        let name = format!("{}/{}", text(document, "/metadata/namespace"), text(document, "/metadata/name"));
        (MemberName::gateway(name), document)
    });
    let members = clusters.chain(gateways).map(|(name, document)| Member {
        name,
        labels: labels_of(document),
        entitlement: Entitlement::Any,
        recorded: None,
    });
    let instances = judged.iter().filter_map(JudgedInstance::claim).collect();
    let objects = InstanceObjects { instances, members: members.collect(), follows_statuses: false };
    settle(&Settlement::default(), &objects, |_, _| true)
}

fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document.pointer(field).and_then(Value::as_str).unwrap_or_default()
}

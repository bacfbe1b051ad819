//! The inputs of all statuses at one time, and the names of objects of which an input is another one than before.
//!
//! A status is a function of the object's diagnosis and of these inputs, and of the conditions that the object had. Each input has a
//! comparison in [`COMPARISONS`]. One that has no identity, the progress of streams, notes its changes itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use portcullis_api::status::ShadowFacts;
use portcullis_translate::Diagnosis;
use portcullis_xds::{ChangedNames, HealthReport, NodeStatus, RegistryChanges, RejectedNode, Snapshot, View};

use super::ObserverInputs;
use crate::serve::changed_keys::changed_keys;
use crate::serve::discovery::Answers;
use crate::serve::endpoint_reports::EndpointReports;
use crate::serve::gateway_health::{GatewayHealthReports, HealthAtGateways};
use crate::serve::gateway_states::shared_refusal;
use crate::serve::instance_status::{EnvoyProgress, add_envoys_elsewhere, envoys_here};
use crate::serve::instance_views::InstanceStates;
use crate::serve::limit_reports::ReportedLimits;
use crate::serve::policies::PolicyVerdicts;
use crate::serve::served_versions::ServedVersions;
use crate::serve::token_keys::KeysByObject;

/// The inputs of all statuses at one time.
pub(super) struct StatusInputs {
    pub(super) diagnoses: Arc<Vec<Arc<Diagnosis>>>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
    pub(super) instances: Arc<InstanceStates>,
    /// Every node that was seen.
    pub(super) nodes: Arc<Vec<NodeStatus>>,
    /// Nodes whose streams are refused.
    pub(super) rejected: Arc<Vec<RejectedNode>>,
    /// Those that keep their last configuration, with the reason.
    pub(super) frozen: BTreeMap<String, String>,
    /// The newest reports of agents, by node.
    pub(super) reports: BTreeMap<String, Arc<HealthReport>>,
    /// The health of servers at Gateways, by object.
    pub(super) at_gateways: Arc<HealthAtGateways>,
    /// The Envoys of instances.
    pub(super) envoys: Arc<EnvoyProgress>,
    pub(super) answers: Arc<Answers>,
    pub(super) token_keys: Arc<KeysByObject>,
    pub(super) shadows: Arc<BTreeMap<String, ShadowFacts>>,
    pub(super) limits: ReportedLimits,
    pub(super) policies: Arc<PolicyVerdicts>,
    /// Owners with which an Envoy's progress may be another one than before.
    progress: ChangedNames,
    /// Owners of resources that are others than before.
    resources: ChangedNames,
    /// Owners of pools that gateways find otherwise than before.
    pools: ChangedNames,
}

/// Parts of the inputs that follow others of them.
#[derive(Default)]
pub(super) struct FollowedInputs {
    pub(super) versions: ServedVersions,
    pub(super) endpoints: EndpointReports,
    at_gateways: GatewayHealthReports,
}

impl StatusInputs {
    /// Reads the inputs. An input that is as it was `before` keeps its allocation.
    pub(super) fn read(
        observed: &ObserverInputs,
        followed: &mut FollowedInputs,
        before: Option<&Self>,
        now: Instant,
    ) -> Self {
        // Before the state of any stream is read: an event that comes later is one of the next time.
        let changes = observed.registry.take_changes();
        // Diagnoses first: they are published behind the snapshot that they belong to.
        let diagnoses = observed.diagnoses.borrow().clone();
        let snapshot = observed.snapshots.borrow().clone();
        let instances = observed.instances.borrow().clone();
        let known = before.filter(|_| !changes.is_any);
        let nodes = known.map_or_else(|| Arc::new(observed.registry.nodes()), |known| Arc::clone(&known.nodes));
        let rejected =
            known.map_or_else(|| Arc::new(observed.registry.rejected_nodes()), |known| Arc::clone(&known.rejected));
        let has_same_diagnoses = before.is_some_and(|before| Arc::ptr_eq(&before.diagnoses, &diagnoses));
        observed.shadows.follow((!has_same_diagnoses).then(|| shadows(&diagnoses)), now);
        let reports = observed.health.reports(now);
        let resources = followed.versions.follow(snapshot.as_ref());
        let pools = followed.endpoints.follow(&reports, snapshot.as_ref());
        let (served, pace) = ((snapshot.as_deref(), nodes.as_slice()), (now, observed.gateway_health_pace));
        let at_gateways = followed.at_gateways.follow(&observed.health, served, pace);
        let mut inputs = Self {
            frozen: observed.registry.frozen(now),
            at_gateways,
            envoys: Arc::default(),
            answers: observed.answers.borrow().clone(),
            token_keys: observed.token_keys.borrow().clone(),
            shadows: observed.shadows.facts(),
            limits: observed.limits.newest(),
            policies: observed.policies.as_ref().map(|verdicts| verdicts.borrow().clone()).unwrap_or_default(),
            progress: progress(changes, before.and_then(|before| before.snapshot.as_deref()), snapshot.as_deref()),
            diagnoses,
            snapshot,
            instances,
            nodes,
            rejected,
            reports,
            resources,
            pools,
        };
        let same = known.filter(|known| known.has_same_envoys(&inputs)).map(|known| Arc::clone(&known.envoys));
        inputs.envoys = same.unwrap_or_else(|| Arc::new(inputs.envoys(observed, &followed.versions)));
        inputs
    }

    /// Whether the Envoys of instances are those of another time, if no stream had an event in between.
    fn has_same_envoys(&self, other: &Self) -> bool {
        let has_same_reports = self.reports.len() == other.reports.len()
            && self.reports.iter().zip(&other.reports).all(|((node, report), (other_node, other_report))| {
                node == other_node
                    && report.views == other_report.views
                    && Arc::ptr_eq(&report.answers, &other_report.answers)
            });
        has_same_reports && self.has_snapshot(other.snapshot.as_ref()) && Arc::ptr_eq(&self.instances, &other.instances)
    }

    fn envoys(&self, observed: &ObserverInputs, versions: &ServedVersions) -> EnvoyProgress {
        if self.instances.by_name.is_empty() {
            return EnvoyProgress::new();
        }
        let here = (&*observed.registry, self.nodes.as_slice());
        let mut envoys = envoys_here(&self.instances, here, self.snapshot.as_deref());
        add_envoys_elsewhere(&mut envoys, &self.instances, &self.reports, |cluster| versions.version(cluster));
        envoys
    }

    /// Whether the snapshot is this one.
    pub(super) fn has_snapshot(&self, snapshot: Option<&Arc<Snapshot>>) -> bool {
        self.snapshot.as_ref().map(Arc::as_ptr) == snapshot.map(Arc::as_ptr)
    }
}

/// The owners with which a node's progress may be another one. With those of a view that are in neither snapshot it has none.
fn progress(changes: RegistryChanges, before: Option<&Snapshot>, snapshot: Option<&Snapshot>) -> ChangedNames {
    let mut owners = changes.owners;
    for view in &changes.views {
        add_owners(view, before, snapshot, &mut owners);
    }
    owners
}

/// Adds the owners of a view in two snapshots.
fn add_owners(view: &View, before: Option<&Snapshot>, after: Option<&Snapshot>, owners: &mut ChangedNames) {
    for view in before.into_iter().chain(after).filter_map(|snapshot| snapshot.view(view)) {
        view.owners().into_iter().for_each(|owner| owners.add(owner));
    }
}

/// The edition of the shadow of each object that is served with one, by name.
fn shadows(diagnoses: &[Arc<Diagnosis>]) -> BTreeMap<String, String> {
    diagnoses.iter().filter_map(|one| Some((one.name.clone(), one.shadow.clone()?))).collect()
}

/// Adds the names of objects of which an input is another one in the second place.
pub(super) type Comparison = fn(&StatusInputs, &StatusInputs, &mut ChangedNames);

/// The comparisons of all inputs but the diagnoses, which are compared one by one.
pub(super) const COMPARISONS: [(&str, Comparison); 15] = [
    ("progress", |_, after, changed| changed.extend(after.progress.clone())),
    ("resources", |_, after, changed| changed.extend(after.resources.clone())),
    ("pools", |_, after, changed| changed.extend(after.pools.clone())),
    ("servers at Gateways", |before, after, changed| {
        if !Arc::ptr_eq(&before.at_gateways, &after.at_gateways) {
            let names = changed_keys(&before.at_gateways, &after.at_gateways);
            names.into_iter().for_each(|name| changed.add(name.as_str()));
        }
    }),
    ("connected nodes", |before, after, changed| {
        if !Arc::ptr_eq(&before.nodes, &after.nodes) {
            add_of_other_nodes(before, after, changed);
        }
    }),
    ("frozen nodes", |before, after, changed| {
        if before.frozen != after.frozen {
            changed.add_all();
        }
    }),
    ("reporting nodes", |before, after, changed| {
        if !reporting(before).eq(reporting(after)) {
            changed.add_all();
        }
    }),
    ("answers elsewhere", add_answered),
    ("instances", |before, after, changed| {
        if !Arc::ptr_eq(&before.instances, &after.instances) {
            after.instances.add_changed(&before.instances, changed);
        }
    }),
    ("Envoys of instances", |before, after, changed| {
        if !Arc::ptr_eq(&before.envoys, &after.envoys) {
            changed_keys(&before.envoys, &after.envoys).into_iter().for_each(|name| changed.add(name.as_str()));
        }
    }),
    ("discovered servers", |before, after, changed| {
        if !Arc::ptr_eq(&before.answers, &after.answers) {
            after.answers.add_changed(&before.answers, changed);
        }
    }),
    ("keys of tokens", |before, after, changed| {
        if !Arc::ptr_eq(&before.token_keys, &after.token_keys) {
            after.token_keys.add_changed(&before.token_keys, changed);
        }
    }),
    ("shadows", |before, after, changed| {
        if !Arc::ptr_eq(&before.shadows, &after.shadows) {
            changed_keys(&before.shadows, &after.shadows).into_iter().for_each(|name| changed.add(name.as_str()));
        }
    }),
    ("limits", |before, after, changed| after.limits.add_changed(&before.limits, changed)),
    ("policies", |before, after, changed| {
        if !Arc::ptr_eq(&before.policies, &after.policies) {
            after.policies.add_changed(&before.policies, changed);
        }
    }),
];

/// A node that is connected here, its view, and its refusal that is about all objects.
type ConnectedNode<'a> = (&'a str, &'a View, Option<(&'a str, &'a str)>);

fn connected(inputs: &StatusInputs) -> BTreeSet<ConnectedNode<'_>> {
    let connected = inputs.nodes.iter().filter(|node| node.connected);
    let connected = connected.map(|node| {
        let refused = shared_refusal(node).map(|refused| (refused.name.as_str(), refused.message.as_str()));
        (node.id.as_str(), &node.view, refused)
    });
    connected.collect()
}

/// Adds the owners of the views of nodes that are connected now, or refuse all of their objects, and did not before, or the reverse. One
/// that is heard of otherwise is looked for among those elsewhere, by each object.
fn add_of_other_nodes(before: &StatusInputs, after: &StatusInputs, changed: &mut ChangedNames) {
    let (known, newest) = (connected(before), connected(after));
    for (node, view, _) in known.symmetric_difference(&newest) {
        if [before, after].iter().any(|one| one.reports.contains_key(*node) || one.frozen.contains_key(*node)) {
            changed.add_all();
            return;
        }
        add_owners(view, before.snapshot.as_deref(), after.snapshot.as_deref(), changed);
    }
}

/// The nodes whose agents report, the views about which they may, and whether they repeat answers.
fn reporting(inputs: &StatusInputs) -> impl Iterator<Item = (&str, Option<&[View]>, bool)> {
    let reports = inputs.reports.iter();
    reports.map(|(node, report)| (node.as_str(), report.views.as_deref(), report.answers.is_empty()))
}

/// Adds the objects about which a node answers otherwise at the replica that it follows.
fn add_answered(before: &StatusInputs, after: &StatusInputs, changed: &mut ChangedNames) {
    for (node, report) in &after.reports {
        let Some(known) = before.reports.get(node).filter(|known| !Arc::ptr_eq(&known.answers, &report.answers)) else {
            continue;
        };
        let names = changed_keys(&known.answers, &report.answers);
        names.into_iter().for_each(|(owner, _)| changed.add(owner.as_str()));
    }
}

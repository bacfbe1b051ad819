//! One set of objects in, one snapshot and one diagnosis of each object out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::Settings;
use portcullis_api::status::{FilledDefault, Served, filled_defaults};
use portcullis_attach::{ObjectName, ServedGateway};
use portcullis_instances::MemberHolder;
use portcullis_sources::ObjectSet;
use portcullis_translate::{Diagnosis, FilterBuild, Input, Resource, ResourceGroup, Translation, choose_settings};
use portcullis_xds::Snapshot;
use serde_json::Value;
use tokio::sync::watch;

use super::cluster_progress::ClusterProgress;
use super::discovery::{Answers, DiscoveredDocuments, Want, Wants};
use super::divided_translator::{DividedTranslator, Division, first_part};
use super::edit_queue::EditQueue;
use super::edit_traces::Step;
use super::explained_diagnoses::{ExplainedDiagnoses, diagnosis_of_file, locate};
use super::filter_snapshots::FilterSnapshots;
use super::fleet::{ServedObjectCache, ServedObjects};
use super::gateway_views::{GatewayDemand, GatewayRefusals, GatewaySnapshots, gateway_of_view};
use super::group_change::{GroupChange, KnownGroups};
use super::instance_views::{
    GatewayOwners, InstanceInput, InstanceOwners, InstanceParts, InstanceSnapshots, InstanceStates, instance_of_view,
};
use super::references::{Resolved, Resolver};
use super::retention::{Fallback, Outcome, Retention};
use super::version;
use super::wanted_views::WantedView;
use super::xds_resources::{Retained, XdsResources};
use crate::client_ca::check_client_ca;

#[cfg(test)]
mod tests;

/// Translates sets of objects into snapshots, with the last good settings and clusters as fallbacks: a wrong edit changes
/// nothing, as if an API server had refused it.
#[derive(Default)]
pub(super) struct Reconciler {
    settings: Option<Arc<Settings>>,
    /// The defaults that were filled into them.
    defaults: Vec<FilledDefault>,
    retention: Retention,
    resolver: Resolver,
    edits: EditQueue,
    progress: ClusterProgress,
    /// When edits were left waiting, if they were.
    behind: Option<Instant>,
    discovered: DiscoveredDocuments,
    translator: DividedTranslator,
    groups: KnownGroups,
    resources: XdsResources,
    served: ServedObjectCache,
    explained: ExplainedDiagnoses,
    filters: FilterSnapshots,
    /// The views of other builds of the filter.
    wanted: BTreeSet<WantedView>,
    gateways: GatewaySnapshots,
    owners: InstanceOwners,
    instances: InstanceSnapshots,
}

/// The result of a set of objects.
#[derive(Debug)]
pub(super) struct Reconciled {
    pub(super) snapshot: Snapshot,
    pub(super) diagnoses: Vec<Arc<Diagnosis>>,
    /// The number of objects that are served with revoked references.
    pub(super) serving_revoked: usize,
    /// The objects that are served, for views of the fleet.
    pub(super) served: ServedObjects,
    /// The sources of servers that the objects name.
    pub(super) wants: Arc<Wants>,
    /// The steps that led to it.
    pub(super) steps: Vec<Step>,
    /// The objects that it is of, if edits wait; else those that were given.
    pub(super) paced: Option<Arc<ObjectSet>>,
    /// The number of edits that wait, by the owner of their objects.
    pub(super) waiting: BTreeMap<MemberHolder, usize>,
    /// The Gateways that are served, if it is known which should be, what of them is not, and whose they are.
    pub(super) gateways: (Option<ServedGateways>, GatewayRefusals, Arc<GatewayOwners>),
    /// The instances, and what belongs to them.
    pub(super) instances: Arc<InstanceStates>,
    /// Which versions of clusters are served.
    pub(super) progress: ClusterProgress,
}

type ServedGateways = Arc<Vec<Arc<ServedGateway>>>;

/// Times steps.
struct Stopwatch {
    since: Instant,
    steps: Vec<Step>,
}

impl Stopwatch {
    fn start() -> Self {
        Self { since: Instant::now(), steps: Vec::new() }
    }

    fn lap(&mut self, name: &'static str) {
        let now = Instant::now();
        self.steps.push((name, std::mem::replace(&mut self.since, now), now));
    }
}

/// The reason for which a set of objects has no snapshot. The operator has to correct the objects.
#[derive(Debug)]
pub(super) enum ReconcileError {
    /// No usable settings since the start. Default settings could open a port that the operator never asked for.
    NoSettings(Vec<Arc<Diagnosis>>),
}

/// A translation and the documents that it is of, in the same order.
struct Translated {
    translation: Translation,
    documents: Vec<Arc<Value>>,
    fallbacks: Vec<Fallback>,
    wants: Wants,
    /// The difference to the translation before.
    change: GroupChange,
    /// The parts of the documents, and the groups of those after the first, which the translation has.
    parts: (Division, Vec<Vec<ResourceGroup>>),
}

impl Reconciler {
    /// A reconciler that goes on from the snapshot that was served before this program started. `grace_period`: how long an
    /// object is served whose references are revoked.
    pub(super) fn resume(last_good: Option<&Snapshot>, grace_period: Duration) -> Self {
        let views = last_good.into_iter().flat_map(Snapshot::views);
        let is_other = |name: &str| gateway_of_view(name).is_some() || instance_of_view(name).is_some();
        let views = views.filter(|(name, _)| !is_other(name));
        Self {
            resources: XdsResources::resume(last_good.cloned().unwrap_or_default()),
            filters: FilterSnapshots::resume(views.map(|(name, view)| (name.to_owned(), view.clone()))),
            retention: Retention::new(grace_period),
            gateways: GatewaySnapshots::resume(last_good.into_iter().flat_map(Snapshot::views)),
            owners: InstanceOwners::resume(last_good),
            instances: InstanceSnapshots::resume(last_good.into_iter().flat_map(Snapshot::views)),
            ..Self::default()
        }
    }

    /// Goes on from the owners of Gateways of before this program started.
    pub(super) fn resume_gateways(&mut self, owners: GatewayOwners) {
        self.owners.resume_gateways(owners);
    }

    /// Has owners follow those that statuses name, while another replica leads.
    pub(super) fn follow_leader(&mut self, leads: watch::Receiver<bool>) {
        self.owners.follow_leader(leads);
    }

    /// Uses these answers about discovered servers from now on.
    pub(super) fn discover(&mut self, answers: Arc<Answers>) {
        self.discovered.answer(answers);
    }

    /// Serves these Gateways from now on, to the Envoys that belong to them.
    pub(super) fn serve_gateways(&mut self, demand: Option<Arc<GatewayDemand>>, claimed: BTreeSet<ObjectName>) {
        self.gateways.take(demand, claimed);
    }

    /// Translates a set of objects, for Envoys with the module and for the `wanted` views of Envoys with other builds of the filter.
    /// Diagnoses are in the order of the set's files, settings and clusters.
    pub(super) fn reconcile(
        &mut self,
        objects: &ObjectSet,
        wanted: &BTreeSet<WantedView>,
        now: Instant,
    ) -> Result<Reconciled, ReconcileError> {
        let mut stopwatch = Stopwatch::start();
        let mut diagnoses: Vec<_> = objects.diagnoses.iter().map(|file| Arc::new(diagnosis_of_file(file))).collect();
        diagnoses.extend(self.follow_settings(objects).into_iter().map(Arc::new));
        let Some(settings) = self.settings.clone() else { return Err(ReconcileError::NoSettings(diagnoses)) };
        let resolved = self.resolver.resolve(objects);
        stopwatch.lap("resolve");
        let owner = self.owners.is_divided().then_some(|document: &Value| self.owners.likely_holder(document));
        let (paced, mut resolved) = self.edits.take((objects, resolved), owner, now);
        self.behind = self.edits.is_behind().then_some(now);
        let paced = paced.map(Arc::new);
        let objects = paced.as_deref().unwrap_or(objects);
        let clusters = resolved.documents.as_slice();
        let (gateways, accepted) = (self.gateways.members(), self.retention.accepted());
        self.owners.follow(&InstanceInput { settings: &settings, objects, clusters, gateways, accepted }, now);
        self.owners.refuse_spanning(&mut resolved.documents);
        self.instances.keep(self.owners.served());
        let Translated { translation, documents, fallbacks, wants, change, parts: (division, groups) } =
            self.translate_all(&settings, objects, &resolved, now);
        let retired = self.retention.retired_groups();
        let mut views = self.follow_instances(groups, &settings, (FilterBuild::Module, None), now);
        views.extend(self.follow_views((settings.as_ref(), &division), &documents, &retired, (wanted, now)));
        let division = (settings.as_ref(), &self.owners.gateway_division());
        views.extend(self.gateways.follow(division, self.retention.accepted(), &self.discovered, now));
        stopwatch.lap("translate");
        let tombstones = self.retention.tombstones(&settings, FilterBuild::Module);
        let retained = Retained { tombstones: &tombstones, retired: &retired };
        self.resources.follow(&translation.groups, &change, retained);
        let refused = fallbacks.iter().map(|fallback| &fallback.diagnosis.name);
        self.progress.follow(objects.number, self.edits.waiting().chain(refused));
        let translated = (translation.diagnoses.as_slice(), documents.as_slice());
        diagnoses.extend(self.explained.follow(translated, fallbacks, (objects, &resolved)));
        diagnoses.extend(self.owners.diagnoses());
        let snapshot = self.resources.snapshot().clone().with_views(views);
        let served = self.served.follow(&settings.instance, self.retention.accepted(), self.retention.touched());
        let served = served.owned_by(self.owners.settled()).requested_at(self.gateways.requested());
        stopwatch.lap("assemble");
        let (serving_revoked, steps) = (self.retention.revoked_count(), stopwatch.steps);
        let (wants, instances) = (Arc::new(wants), self.owners.states());
        let gateways = (self.gateways.served(), self.gateways.refusals(), self.owners.gateway_owners());
        Ok(Reconciled {
            snapshot,
            diagnoses,
            serving_revoked,
            served,
            wants,
            steps,
            paced,
            waiting: self.edits.lengths(),
            gateways,
            instances,
            progress: self.progress.clone(),
        })
    }

    /// The next time at which the same objects lead to another snapshot; one that has passed if edits wait.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let of_instances = self.owners.next_expiry().into_iter().chain(self.instances.next_expiry());
        let others = self.gateways.next_expiry().into_iter().chain(self.behind);
        self.retention.next_expiry().into_iter().chain(others).chain(of_instances).min()
    }

    /// Takes the set's settings if they are good; the ones before stay in use otherwise.
    fn follow_settings(&mut self, objects: &ObjectSet) -> Vec<Diagnosis> {
        let mut choice = choose_settings(&objects.settings, Some(check_client_ca));
        for (index, (diagnosis, document)) in choice.diagnoses.iter_mut().zip(&objects.settings).enumerate() {
            version::stamp(diagnosis, document);
            locate(diagnosis, objects.settings_places.get(index));
        }
        if let Some(settings) = choice.settings {
            self.settings = Some(Arc::new(settings));
            self.defaults = objects.settings.first().map(filled_defaults).unwrap_or_default();
        }
        for diagnosis in &mut choice.diagnoses {
            diagnosis.version.defaults.clone_from(&self.defaults);
            if !diagnosis.accepted && self.settings.is_some() {
                diagnosis.message.push_str("; the settings that were used before are still in use");
                diagnosis.version.served = Served::Older(None);
            }
        }
        choice.diagnoses
    }

    /// Translates for the module, with fallbacks in place of invalid documents, and records the outcome.
    fn translate_all(
        &mut self,
        settings: &Settings,
        objects: &ObjectSet,
        resolved: &Resolved,
        now: Instant,
    ) -> Translated {
        let division = self.owners.division(&resolved.documents);
        let translator = &mut self.translator;
        let mut translate = |clusters: &[Arc<Value>]| {
            let input = Input { settings, clusters, filter: FilterBuild::Module };
            first_part(translator.translate(&input, &division))
        };
        let mut documents = resolved.documents.clone();
        let (mut wants, _) = self.discovered.put_all(&mut documents, settings);
        let (mut translation, mut groups) = translate(&documents);
        let diagnoses = &translation.diagnoses;
        let fallbacks = self.retention.fall_back(&mut documents, diagnoses, &objects.referenced_data, now);
        if !fallbacks.is_empty() {
            for Fallback { index, .. } in &fallbacks {
                if let (Some(document), Some(want)) = (documents.get_mut(*index), wants.get_mut(*index)) {
                    *want = self.discovered.put(document, settings);
                }
            }
            (translation, groups) = translate(&documents);
        }
        let change = self.groups.follow(&translation.groups);
        let outcome = Outcome {
            written: &objects.clusters,
            translated: &documents,
            fallbacks: &fallbacks,
            translation: &translation,
            change: &change,
            settings,
        };
        self.retention.record(&outcome, now);
        let mut wants = wants_of_accepted(wants, &translation.diagnoses);
        wants.extend(self.gateways.wants(settings));
        self.discovered.keep(|name| wants.contains_key(name));
        Translated { translation, documents, fallbacks, wants, change, parts: (division, groups) }
    }

    /// The views of the instances of some parts, or of all, of the groups of each in their order.
    fn follow_instances(
        &mut self,
        groups: Vec<Vec<ResourceGroup>>,
        settings: &Settings,
        (filter, parts): (FilterBuild, Option<&BTreeSet<usize>>),
        now: Instant,
    ) -> Vec<(String, Snapshot)> {
        let tombstones = self.retention.tombstones(settings, filter);
        let of_instance = |(name, groups): (&String, _)| {
            (name.clone(), (self.owners.is_served(name).then_some(groups), self.owners.settings_of(name, settings)))
        };
        let groups = self.owners.served().iter().zip(groups).zip(1_usize..);
        let of_parts = groups.filter(|(_, part)| parts.is_none_or(|parts| parts.contains(part)));
        let groups = of_parts.map(|(one, _)| of_instance(one)).collect();
        let parts = InstanceParts { filter, groups, tombstones, replaced: self.retention.replaced() };
        self.instances.follow(parts, now)
    }

    /// Translates for the other builds of the filter, as far as Envoys have them.
    fn follow_views(
        &mut self,
        (settings, division): (&Settings, &Division),
        documents: &[Arc<Value>],
        retired: &[Arc<Resource>],
        (wanted, now): (&BTreeSet<WantedView>, Instant),
    ) -> Vec<(String, Snapshot)> {
        let before = std::mem::replace(&mut self.wanted, wanted.clone());
        for name in before.difference(wanted).filter_map(WantedView::name) {
            self.instances.forget(&name);
        }
        let builds = self.wanted_parts();
        self.filters.keep(&builds);
        let mut views = Vec::new();
        for (filter, parts) in builds {
            let tombstones = self.retention.tombstones(settings, filter);
            let input = Input { settings, clusters: documents, filter };
            let retained = Retained { tombstones: &tombstones, retired };
            let (free, groups) = self.filters.follow((&input, division), &parts, retained);
            views.extend(free);
            views.extend(self.follow_instances(groups, settings, (filter, Some(&parts)), now));
        }
        views
    }

    /// The parts of the wanted views, by build; none of an instance that is not served.
    fn wanted_parts(&self) -> BTreeMap<FilterBuild, BTreeSet<usize>> {
        let parts: BTreeMap<&str, usize> = self.owners.served().iter().map(String::as_str).zip(1..).collect();
        let mut builds: BTreeMap<FilterBuild, BTreeSet<usize>> = BTreeMap::new();
        for WantedView { filter, instance } in &self.wanted {
            if let Some(part) = instance.as_deref().map_or(Some(0), |instance| parts.get(instance).copied()) {
                builds.entry(*filter).or_default().insert(part);
            }
        }
        builds
    }
}

/// The wants of the documents that are served: the first of a name, as in translation.
fn wants_of_accepted(wants: Vec<Option<Arc<Want>>>, diagnoses: &[Arc<Diagnosis>]) -> Wants {
    let mut kept = Wants::new();
    for (want, diagnosis) in wants.into_iter().zip(diagnoses) {
        let Some(want) = want.filter(|_| diagnosis.accepted) else { continue };
        kept.entry(want.name().to_owned()).or_insert(want);
    }
    kept
}

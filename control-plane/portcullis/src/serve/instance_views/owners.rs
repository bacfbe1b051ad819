use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::Settings;
use portcullis_attach::ObjectName;
use portcullis_instances::{
    InstanceClaim, InstanceObjects, JudgedInstance, Member, MemberHolder, MemberName, Settlement, judge_instances,
    settle,
};
use portcullis_sources::ObjectSet;
use portcullis_translate::Diagnosis;
use portcullis_xds::Snapshot;
use serde_json::Value;
use tokio::sync::watch;

use super::super::divided_translator::{Division, OwnPart};
use super::diagnoses::diagnosis;
use super::gateway_division::GatewayDivision;
use super::gateway_owners::GatewayOwners;
use super::last_owners::{instances_of, settled_by, undivided};
use super::members::{
    GatewayMember, KnownLabels, gateway_members, gateway_uids, labels_of_all, member, member_name, uid, uids,
};
use super::own_settings::{OwnSettings, SettingsDocuments};
use super::states::InstanceStates;
use crate::spanning_policies::{spanning_policies, without_spanning};

/// How long both owners serve an `UpstreamCluster` before the former one lets go: longer than an Envoy takes to warm its pools.
const HAND_OVER: Duration = Duration::from_secs(30);

/// Maximum number of views; beyond it those of instances that are gone are dropped, and their Envoys keep what they have.
const MAX_VIEWS: usize = 200;

/// Everything that decides about owners.
#[derive(Clone, Copy)]
pub(in super::super) struct InstanceInput<'a> {
    pub(in super::super) settings: &'a Settings,
    /// The `Instances`, and the `GatewaySettings` that they may name.
    pub(in super::super) objects: &'a ObjectSet,
    /// `UpstreamCluster` documents.
    pub(in super::super) clusters: &'a [Arc<Value>],
    /// The Gateways of this controller; `None` while it is not known which there are.
    pub(in super::super) gateways: Option<&'a BTreeMap<ObjectName, GatewayMember>>,
    /// Those that were accepted last, by their names.
    pub(in super::super) accepted: &'a BTreeMap<String, Arc<Value>>,
}

impl<'a> InstanceInput<'a> {
    /// The Gateways that are known.
    fn gateways(&self) -> impl Iterator<Item = (&'a ObjectName, &'a GatewayMember)> {
        self.gateways.into_iter().flatten()
    }
}

/// The owners of `UpstreamClusters`, over time.
#[derive(Default)]
pub(in super::super) struct InstanceOwners {
    /// The snapshot of before this program started, until the first objects.
    resumed: Option<Snapshot>,
    /// The owners of Gateways of before this program started, until it is known which Gateways there are.
    resumed_gateways: Option<GatewayOwners>,
    settled: Arc<Settlement>,
    /// The UIDs of the objects that it is of.
    uids: BTreeMap<MemberName, String>,
    /// Their labels.
    labels: KnownLabels,
    /// The claims of instances that were accepted last.
    accepted: BTreeMap<String, InstanceClaim>,
    /// When each hand-over began, and to which owner it is.
    since: BTreeMap<MemberName, (MemberHolder, Instant)>,
    /// The instances that have a view, in the order of their parts: the first part is of what belongs to none.
    served: BTreeSet<String>,
    /// Their diagnoses, in the order of the documents.
    diagnoses: Vec<Arc<Diagnosis>>,
    settings: OwnSettings,
    states: Arc<InstanceStates>,
    /// Whether this control plane leads, where several do.
    leads: Option<watch::Receiver<bool>>,
    /// Documents that are refused because of a policy.
    refused: BTreeMap<MemberName, Arc<Value>>,
}

impl InstanceOwners {
    /// Goes on from the snapshot that was served before this program started: it says who owned what.
    pub(in super::super) fn resume(last_good: Option<&Snapshot>) -> Self {
        Self { resumed: last_good.cloned(), ..Self::default() }
    }

    /// Goes on from the owners of Gateways of before this program started.
    pub(in super::super) fn resume_gateways(&mut self, owners: GatewayOwners) {
        self.resumed_gateways = Some(owners);
    }

    /// Says whether this control plane leads, and writes the statuses that name owners.
    pub(in super::super) fn follow_leader(&mut self, leads: watch::Receiver<bool>) {
        self.leads = Some(leads);
    }

    /// The owners of Gateways, for the next start.
    pub(in super::super) fn gateway_owners(&self) -> Arc<GatewayOwners> {
        let resumed = self.resumed_gateways.clone();
        Arc::new(resumed.unwrap_or_else(|| GatewayOwners::of(&self.settled, &self.uids)))
    }

    /// Settles all owners anew.
    pub(in super::super) fn follow(&mut self, input: &InstanceInput<'_>, now: Instant) {
        let (resumed, instances) = (self.resumed.take(), input.objects.instances.as_slice());
        let had_instances = resumed.as_ref().is_some_and(|one| instances_of(one).next().is_some());
        if instances.is_empty() && self.served.is_empty() && !had_instances {
            // Without instances nothing is divided, and no hand-over is left to wait for.
            *self = Self { leads: self.leads.take(), ..Self::default() };
            return;
        }
        let mut judged = judge_instances(instances.iter().map(AsRef::as_ref), &input.settings.instance);
        let (all, of_all) = (input.objects.instance_settings.as_slice(), input.objects.settings.as_slice());
        self.settings.follow(&mut judged, &SettingsDocuments { shared: input.settings, all, of_all });
        let claims: Vec<InstanceClaim> = judged.iter().filter_map(|one| self.claim(one)).collect();
        if let Some(resumed) = resumed {
            self.settled = Arc::new(settled_by(&resumed, input.clusters, &claims));
            self.served.extend(instances_of(&resumed).map(str::to_owned));
        } else if self.served.is_empty() {
            self.settled = Arc::new(undivided(input.accepted));
            self.uids = uids(input.accepted.values());
        }
        self.forget_replaced(input);
        self.restore_gateways(input, &claims);
        let member = |document: &Arc<Value>| member(document, &self.labels, &self.settled);
        let members: Vec<Member> = input.clusters.iter().map(member).chain(gateway_members(input.gateways())).collect();
        self.labels = labels_of_all(&members);
        let is_ready = |member: &MemberName, to: &MemberHolder| {
            self.since.get(member).is_some_and(|(next, since)| next == to && now >= *since + HAND_OVER)
        };
        let follows_statuses = self.leads.as_ref().is_some_and(|leads| !*leads.borrow());
        let objects = InstanceObjects { instances: claims, members, follows_statuses };
        let settled = settle(&self.settled, &objects, is_ready);
        // The same as before is the same allocation: nothing behind looks for objects that passed over.
        if *self.settled != settled {
            self.settled = Arc::new(settled);
        }
        self.remember(objects.instances, now);
        self.settings.keep(&self.served);
        let documents = judged.iter().zip(instances);
        self.diagnoses = documents.map(|(one, document)| Arc::new(diagnosis(one, document, &self.settled))).collect();
        let is_served = |instance: &str| self.settings.are_known(instance);
        let spanning = spanning_policies(input.clusters, &self.settled);
        let states = InstanceStates::of(&judged, &self.settled, is_served, spanning);
        if *self.states != states {
            self.states = Arc::new(states);
        }
    }

    /// Drops the owners of objects that were deleted and made anew under their names: a former owner gets no key of the new ones.
    fn forget_replaced(&mut self, input: &InstanceInput<'_>) {
        let mut newer = uids(input.clusters);
        newer.extend(gateway_uids(input.gateways()));
        for (member, uid) in &newer {
            if self.uids.get(member).is_some_and(|before| before != uid) {
                Arc::make_mut(&mut self.settled).owners.remove(member);
            }
        }
        self.uids = newer;
    }

    /// Gives Gateways the owners that they had, as soon as it is known which there are. Those of others are forgotten: these were deleted
    /// meanwhile.
    fn restore_gateways(&mut self, input: &InstanceInput<'_>, claims: &[InstanceClaim]) {
        let Some(gateways) = input.gateways else { return };
        let Some(resumed) = self.resumed_gateways.take() else { return };
        for (name, gateway) in gateways {
            let member = MemberName::gateway(name.to_string());
            let owner = resumed.owner(&member.name, gateway.uid.as_deref(), claims);
            if let Some(owner) = owner.filter(|_| !self.settled.owners.contains_key(&member)) {
                Arc::make_mut(&mut self.settled).owners.insert(member, owner);
            }
        }
    }

    /// The claim of an instance; of one that is refused that of the version which was accepted last.
    fn claim(&self, judged: &JudgedInstance) -> Option<InstanceClaim> {
        let claim = judged.claim()?;
        let last = self.accepted.get(&claim.name).filter(|_| claim.selection.is_none());
        Some(last.cloned().unwrap_or(claim))
    }

    fn remember(&mut self, instances: Vec<InstanceClaim>, now: Instant) {
        let mut before = std::mem::take(&mut self.since);
        for one in self.settled.hand_overs() {
            // Its Envoys have nothing yet: the time begins when they do.
            if one.to.instance().is_some_and(|next| !self.settings.are_known(next)) {
                continue;
            }
            let known = before.remove(&one.member).filter(|(next, _)| *next == one.to);
            self.since.insert(one.member, known.unwrap_or((one.to, now)));
        }
        // The view of one that is gone stays, without anything in it: its Envoys are to have nothing more.
        let names: BTreeSet<String> = instances.iter().map(|claim| claim.name.clone()).collect();
        if self.served.union(&names).count() > MAX_VIEWS {
            self.served.retain(|name| names.contains(name));
        }
        self.served.extend(names);
        let accepted = instances.into_iter().filter(|claim| claim.selection.is_some());
        self.accepted = accepted.map(|claim| (claim.name.clone(), claim)).collect();
    }

    /// The instances with a view, each of the part after the one before it; the first part is of what belongs to none.
    pub(in super::super) fn served(&self) -> &BTreeSet<String> {
        &self.served
    }

    /// Refuses the documents for which a policy decides whose targets belong to several owners.
    pub(in super::super) fn refuse_spanning(&mut self, clusters: &mut [Arc<Value>]) {
        let mut before = std::mem::take(&mut self.refused);
        for document in clusters.iter_mut().filter(|_| !self.states.spanning.is_empty()) {
            let Some(refused) = without_spanning(document, &self.states.spanning) else { continue };
            // The same as before is the same allocation: nothing behind takes it for an edit.
            let known = before.remove(&member_name(document)).filter(|known| **known == refused);
            let refused = known.unwrap_or_else(|| Arc::new(refused));
            self.refused.insert(member_name(document), Arc::clone(&refused));
            *document = refused;
        }
    }

    /// The parts of documents, in their order. Without instances nothing is divided.
    pub(in super::super) fn division(&self, clusters: &[Arc<Value>]) -> Division {
        let count = self.served.len().saturating_add(1);
        let own = |(instance, part): (&String, usize)| {
            let settings = Arc::clone(self.settings.of(instance)?);
            Some((part, OwnPart { instance: instance.clone(), settings }))
        };
        Division { count, of: self.parts(clusters), own: self.served.iter().zip(1..).filter_map(own).collect() }
    }

    fn parts(&self, clusters: &[Arc<Value>]) -> Vec<Vec<usize>> {
        if self.served.is_empty() {
            return Vec::new();
        }
        let parts = self.served.iter().map(String::as_str).zip(1..);
        let parts: BTreeMap<&str, usize> = parts.filter(|(instance, _)| self.is_served(instance)).collect();
        let part = |holder: &MemberHolder| match holder {
            MemberHolder::Free => Some(0),
            MemberHolder::Instance(name) => parts.get(name.as_str()).copied(),
            MemberHolder::Nobody => None,
        };
        let of = |document: &Arc<Value>| {
            let owner = self.settled.owners.get(&member_name(document));
            let holders = owner.into_iter().flat_map(|owner| std::iter::once(&owner.holder).chain(&owner.next));
            holders.filter_map(part).collect()
        };
        clusters.iter().map(of).collect()
    }

    /// The owners, if clusters are divided among instances.
    pub(in super::super) fn settled(&self) -> Option<Arc<Settlement>> {
        self.is_divided().then(|| Arc::clone(&self.settled))
    }

    /// Whether clusters are divided among instances.
    pub(in super::super) fn is_divided(&self) -> bool {
        !self.served.is_empty()
    }

    /// The holder of a cluster; of a new one, and of one that was made anew under its name, an instance that selects it.
    pub(in super::super) fn likely_holder(&self, document: &Value) -> MemberHolder {
        let name = member_name(document);
        let is_replaced = self.uids.get(&name).is_some_and(|known| uid(document).is_some_and(|uid| uid != known));
        if let Some(owner) = self.settled.owners.get(&name).filter(|_| !is_replaced) {
            return owner.holder.clone();
        }
        let labels = member(document, &self.labels, &self.settled).labels;
        let selects = |claim: &&InstanceClaim| {
            let selector = claim.selection.as_ref().and_then(|selection| selection.clusters.as_ref());
            selector.is_some_and(|selector| selector.selects(&labels))
        };
        let instance = self.accepted.values().find(selects);
        instance.map_or(MemberHolder::Free, |claim| MemberHolder::Instance(claim.name.clone()))
    }

    /// Whether Envoys of an instance are served anew: it is known by which settings. One that is gone has those that it had, and without
    /// any those of all: nothing else is left to it.
    pub(in super::super) fn is_served(&self, instance: &str) -> bool {
        self.settings.are_known(instance) || !self.states.by_name.contains_key(instance)
    }

    /// The settings of an instance's Envoys.
    pub(in super::super) fn settings_of<'a>(&'a self, instance: &str, shared: &'a Settings) -> &'a Settings {
        self.settings.of(instance).map_or(shared, AsRef::as_ref)
    }

    /// Everything that decides by which settings Gateways are served, and to which clusters they lead.
    pub(in super::super) fn gateway_division(&self) -> GatewayDivision {
        GatewayDivision { states: self.states(), own: self.settings.all_own() }
    }

    /// The instances, and what belongs to them.
    pub(in super::super) fn states(&self) -> Arc<InstanceStates> {
        Arc::clone(&self.states)
    }

    /// The diagnoses of the instances, in the order of their documents, and of the settings that they name.
    pub(in super::super) fn diagnoses(&self) -> impl Iterator<Item = Arc<Diagnosis>> {
        self.diagnoses.iter().chain(self.settings.diagnoses()).map(Arc::clone)
    }

    /// When a hand-over ends.
    pub(in super::super) fn next_expiry(&self) -> Option<Instant> {
        self.since.values().map(|(_, since)| *since + HAND_OVER).min()
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::Settings;
use portcullis_instances::{
    InstanceClaim, InstanceObjects, JudgedInstance, Member, MemberHolder, MemberName, Settlement, judge_instances,
    settle,
};
use portcullis_translate::Diagnosis;
use portcullis_xds::Snapshot;
use serde_json::Value;

use super::diagnoses::diagnosis;
use super::last_owners::{instances_of, settled_by, undivided};
use super::members::{KnownLabels, labels_of_all, member, member_name, uid, uids};

/// How long both owners serve an `UpstreamCluster` before the former one lets go: longer than an Envoy takes to warm its pools.
const HAND_OVER: Duration = Duration::from_secs(30);

/// Maximum number of views; beyond it those of instances that are gone are dropped, and their Envoys keep what they have.
const MAX_VIEWS: usize = 200;

/// Everything that decides about owners.
#[derive(Clone, Copy)]
pub(in super::super) struct InstanceInput<'a> {
    pub(in super::super) settings: &'a Settings,
    /// `Instance` documents.
    pub(in super::super) instances: &'a [Arc<Value>],
    /// `UpstreamCluster` documents.
    pub(in super::super) clusters: &'a [Arc<Value>],
    /// Those that were accepted last, by their names.
    pub(in super::super) accepted: &'a BTreeMap<String, Arc<Value>>,
}

/// The owners of `UpstreamClusters`, over time.
#[derive(Default)]
pub(in super::super) struct InstanceOwners {
    /// The snapshot of before this program started, until the first objects.
    resumed: Option<Snapshot>,
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
}

impl InstanceOwners {
    /// Goes on from the snapshot that was served before this program started: it says who owned what.
    pub(in super::super) fn resume(last_good: Option<&Snapshot>) -> Self {
        Self { resumed: last_good.cloned(), ..Self::default() }
    }

    /// Settles all owners anew.
    pub(in super::super) fn follow(&mut self, input: &InstanceInput<'_>, now: Instant) {
        let resumed = self.resumed.take();
        let had_instances = resumed.as_ref().is_some_and(|one| instances_of(one).next().is_some());
        if input.instances.is_empty() && self.served.is_empty() && !had_instances {
            // Without instances nothing is divided, and no hand-over is left to wait for.
            *self = Self::default();
            return;
        }
        let judged = judge_instances(input.instances.iter().map(AsRef::as_ref), &input.settings.instance);
        let instances: Vec<InstanceClaim> = judged.iter().filter_map(|one| self.claim(one)).collect();
        if let Some(resumed) = resumed {
            self.settled = Arc::new(settled_by(&resumed, input.clusters, &instances));
            self.served.extend(instances_of(&resumed).map(str::to_owned));
        } else if self.served.is_empty() {
            self.settled = Arc::new(undivided(input.accepted));
            self.uids = uids(input.accepted.values());
        }
        self.forget_replaced(input.clusters);
        let member = |document: &Arc<Value>| member(document, &self.labels, &self.settled);
        let members: Vec<Member> = input.clusters.iter().map(member).collect();
        self.labels = labels_of_all(&members);
        let is_ready = |member: &MemberName, to: &MemberHolder| {
            self.since.get(member).is_some_and(|(next, since)| next == to && now >= *since + HAND_OVER)
        };
        let objects = InstanceObjects { instances, members };
        self.settled = Arc::new(settle(&self.settled, &objects, is_ready));
        self.remember(objects.instances, now);
        let documents = judged.iter().zip(input.instances);
        self.diagnoses = documents.map(|(one, document)| Arc::new(diagnosis(one, document, &self.settled))).collect();
    }

    /// Drops the owners of objects that were deleted and made anew under their names: a former owner gets no key of the new ones.
    fn forget_replaced(&mut self, clusters: &[Arc<Value>]) {
        let newer = uids(clusters);
        for (member, uid) in &newer {
            if self.uids.get(member).is_some_and(|before| before != uid) {
                Arc::make_mut(&mut self.settled).owners.remove(member);
            }
        }
        self.uids = newer;
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

    /// The parts of each document, in their order; empty if nothing is divided.
    pub(in super::super) fn parts(&self, clusters: &[Arc<Value>]) -> Vec<Vec<usize>> {
        if self.served.is_empty() {
            return Vec::new();
        }
        let parts: BTreeMap<&str, usize> = self.served.iter().map(String::as_str).zip(1..).collect();
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

    /// The diagnoses of the instances, in the order of their documents.
    pub(in super::super) fn diagnoses(&self) -> impl Iterator<Item = Arc<Diagnosis>> {
        self.diagnoses.iter().map(Arc::clone)
    }

    /// When a hand-over ends.
    pub(in super::super) fn next_expiry(&self) -> Option<Instant> {
        self.since.values().map(|(_, since)| *since + HAND_OVER).min()
    }
}

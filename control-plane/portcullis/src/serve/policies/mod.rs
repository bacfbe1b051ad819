//! Policies that are attached to `UpstreamCluster`s: judged whenever a policy, a permission or a cluster has changed, and put into the
//! clusters' documents before anything else looks at these. Those of Gateways, listeners, `HTTPRoutes` and `KubernetesUpstreams` go to the
//! step that judges these ([`super::gateway_api`]).
//!
//! No cluster goes on before each kind of policies is listed: without them a cluster's own fields would hold, which a policy may have
//! narrowed.

mod door_targets;
mod former_parts;
mod merged_documents;
mod read_policies;
mod verdicts;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use portcullis_api::PolicyKind;
use portcullis_attach::{PolicyMemo, PolicyTargets, attach_policies};
use portcullis_sources::{GatewayApiObjects, ObjectSet, SetNumber, WatchedKind};
use tokio::sync::watch;

use super::instance_views::InstanceStates;
use crate::policies::{grants, name_of};
use crate::spanning_policies::spanning_at_doors;
use door_targets::{ReadDoors, upstreams};
use former_parts::FormerParts;
use merged_documents::MergedDocuments;
use read_policies::ReadPolicies;
pub(super) use verdicts::PolicyVerdicts;

/// The objects of a source, with policies from here on.
pub(super) struct PolicyStage {
    /// Policies, with the permissions for them.
    pub(super) policies: watch::Receiver<Arc<GatewayApiObjects>>,
    /// The objects of the Gateway API; none if the control plane serves none of them.
    pub(super) gateway_api: Option<watch::Receiver<Arc<GatewayApiObjects>>>,
    /// The control plane's own namespace.
    pub(super) home_namespace: String,
    /// The verdicts about policies.
    pub(super) verdicts: watch::Sender<Arc<PolicyVerdicts>>,
    /// The instances of what was served last: policies whose targets belong to several are refused, and that acts behind this stage.
    pub(super) instances: watch::Receiver<Arc<InstanceStates>>,
    /// The number of the policies at doors that are served.
    pub(super) doors_served: watch::Receiver<u64>,
}

/// The inputs and outputs of the last step: whatever is the same is not read, checked or merged again.
#[derive(Default)]
struct StepMemory {
    policies: ReadPolicies,
    memo: PolicyMemo,
    doors: ReadDoors,
    documents: MergedDocuments,
    parts: FormerParts,
}

/// The outcome of a step.
struct MergedStep {
    set: ObjectSet,
    verdicts: PolicyVerdicts,
    /// Whether a policy is attached to an object of the Gateway API.
    has_doors: bool,
}

/// The same with the memory for the next one.
struct Merged {
    step: MergedStep,
    memory: StepMemory,
}

/// The inputs of a step.
struct StepInput {
    objects: Arc<ObjectSet>,
    policies: Arc<GatewayApiObjects>,
    gateway_api: Option<Arc<GatewayApiObjects>>,
    home_namespace: String,
    instances: Arc<InstanceStates>,
    doors_served: u64,
}

impl PolicyStage {
    /// Waits for the first list of each kind, and yields a set whenever the source or a policy has something newer. `None` if the
    /// source of policies ended before. Needs a tokio runtime.
    pub(super) async fn attach(
        mut self,
        mut objects: watch::Receiver<Arc<ObjectSet>>,
    ) -> Option<watch::Receiver<Arc<ObjectSet>>> {
        if !self.policies.borrow().lists_policies() {
            tracing::info!("no UpstreamCluster is served by its newest version before policies are listed");
        }
        self.policies.wait_for(|all| all.lists_policies()).await.ok()?;
        let mut memory = StepMemory::default();
        let first = self.step(&mut objects, &mut memory).await?;
        let mut has_doors = first.has_doors;
        let (sender, receiver) = watch::channel(Arc::default());
        self.publish(&sender, first);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = objects.changed() => if changed.is_err() { return },
                    changed = self.policies.changed() => if changed.is_err() { return },
                    // Routes change often.
                    () = changed(&mut self.gateway_api), if has_doors => {}
                    changed = self.instances.changed() => if changed.is_err() { return },
                    changed = self.doors_served.changed(), if memory.parts.has_any() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
                let Some(newer) = self.step(&mut objects, &mut memory).await else { return };
                has_doors = newer.has_doors;
                self.publish(&sender, newer);
            }
        });
        Some(receiver)
    }

    /// On a thread of its own: each cluster with another policy is checked. `None` if the runtime ends.
    async fn step(
        &mut self,
        objects: &mut watch::Receiver<Arc<ObjectSet>>,
        memory: &mut StepMemory,
    ) -> Option<MergedStep> {
        let input = StepInput {
            objects: objects.borrow_and_update().clone(),
            policies: self.policies.borrow_and_update().clone(),
            gateway_api: self.gateway_api.as_mut().map(|objects| objects.borrow_and_update().clone()),
            home_namespace: self.home_namespace.clone(),
            instances: self.instances.borrow_and_update().clone(),
            doors_served: *self.doors_served.borrow_and_update(),
        };
        let known = std::mem::take(memory);
        let work = tokio::task::spawn_blocking(move || merge(&input, known));
        let Merged { step, memory: newer } = work.await.ok()?;
        *memory = newer;
        Some(step)
    }

    /// Publishes the set if it is another one, by the next number, and then the verdicts, with the number of the set that they are of:
    /// a policy that is gone from a door may be in a cluster's document there.
    fn publish(&self, sender: &watch::Sender<Arc<ObjectSet>>, newer: MergedStep) {
        let MergedStep { set, mut verdicts, .. } = newer;
        sender.send_if_modified(|before| {
            let SetNumber(last) = before.number;
            let is_new = last == 0 || **before != set;
            if is_new {
                *before = Arc::new(ObjectSet { number: SetNumber(last.saturating_add(1)), ..set });
            }
            is_new
        });
        verdicts.of = sender.borrow().number;
        self.verdicts.send_if_modified(|before| {
            let is_new = **before != verdicts;
            if is_new {
                *before = Arc::new(verdicts);
            }
            is_new
        });
    }
}

/// Waits for a change, for ever where there is nothing or none comes any more.
async fn changed(objects: &mut Option<watch::Receiver<Arc<GatewayApiObjects>>>) {
    let is_alive = match objects {
        Some(objects) => objects.changed().await.is_ok(),
        None => false,
    };
    if !is_alive {
        std::future::pending::<()>().await;
    }
}

/// The namespaces of which policies that can tighten were left out.
fn unread(policies: &GatewayApiObjects) -> BTreeSet<String> {
    let kinds = [PolicyKind::Dispatch, PolicyKind::FlowControl];
    kinds.into_iter().flat_map(|kind| policies.cut(WatchedKind::Policy(kind))).cloned().collect()
}

fn merge(input: &StepInput, mut memory: StepMemory) -> Merged {
    let StepInput { objects, policies, gateway_api, home_namespace, instances, doors_served } = input;
    let clusters = objects.clusters.iter().map(|document| (name_of(document).to_owned(), Arc::clone(document)));
    let read = memory.policies.read(policies);
    let targets = PolicyTargets {
        is_complete: true,
        home_namespace: home_namespace.clone(),
        clusters: clusters.collect(),
        doors: memory.doors.read(gateway_api.as_ref(), &read),
        upstreams: gateway_api.as_deref().map(upstreams).unwrap_or_default(),
        unread: unread(policies),
    };
    let grants = grants(policies.of(WatchedKind::ReferenceGrant));
    let mut attached = attach_policies(&read, &grants, &targets, &mut memory.memo);
    // Without doors there is none that a policy has to wait for.
    let served = if gateway_api.is_some() { *doors_served } else { u64::MAX };
    let doors_number = memory.parts.follow(&mut attached, &targets.clusters, served);
    attached.refuse_spanning(&instances.spanning);
    let spanning = spanning_at_doors(&attached, &targets.doors, &instances.settled);
    attached.refuse_spanning_at_doors(&spanning);
    let clusters = memory.documents.merged(&objects.clusters, &attached.in_effect);
    let set = ObjectSet { clusters, ..ObjectSet::clone(objects) };
    let has_doors = door_targets::has_any(&read);
    let verdicts = PolicyVerdicts::new(attached, doors_number, &read).with_left_out(memory.parts.left_out());
    Merged { step: MergedStep { set, verdicts, has_doors }, memory }
}

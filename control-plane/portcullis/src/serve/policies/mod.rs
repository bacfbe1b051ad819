//! Policies that are attached to `UpstreamCluster`s: judged whenever a policy, a permission or a cluster has changed, and put into the
//! clusters' documents before anything else looks at these.
//!
//! No cluster goes on before each kind of policies is listed: without them a cluster's own fields would hold, which a policy may have
//! narrowed.

mod merged_documents;
mod read_policies;
mod verdicts;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use portcullis_attach::{PolicyMemo, PolicyTargets, attach_policies};
use portcullis_sources::{GatewayApiObjects, ObjectSet, WatchedKind};
use tokio::sync::watch;

use super::instance_views::InstanceStates;
use crate::policies::{grants, name_of};
use crate::spanning_policies::SpanningPolicies;
use merged_documents::MergedDocuments;
use read_policies::ReadPolicies;
pub(super) use verdicts::PolicyVerdicts;

/// The objects of a source, with policies from here on.
pub(super) struct PolicyStage {
    /// Policies, with the permissions for them.
    pub(super) policies: watch::Receiver<Arc<GatewayApiObjects>>,
    /// The control plane's own namespace.
    pub(super) home_namespace: String,
    /// The verdicts about policies.
    pub(super) verdicts: watch::Sender<Arc<PolicyVerdicts>>,
    /// The instances of what was served last: policies whose targets belong to several are refused, and that acts behind this stage.
    pub(super) instances: watch::Receiver<Arc<InstanceStates>>,
}

/// The inputs and outputs of the last step: whatever is the same is not read, checked or merged again.
#[derive(Default)]
struct StepMemory {
    policies: ReadPolicies,
    memo: PolicyMemo,
    documents: MergedDocuments,
}

/// The outcome of a step.
struct Merged {
    set: ObjectSet,
    verdicts: PolicyVerdicts,
    memory: StepMemory,
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
        let (sender, receiver) = watch::channel(Arc::new(first));
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = objects.changed() => if changed.is_err() { return },
                    changed = self.policies.changed() => if changed.is_err() { return },
                    changed = self.instances.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
                let Some(set) = self.step(&mut objects, &mut memory).await else { return };
                sender.send_if_modified(|before| {
                    let is_new = **before != set;
                    if is_new {
                        *before = Arc::new(set);
                    }
                    is_new
                });
            }
        });
        Some(receiver)
    }

    /// On a thread of its own: each cluster with another policy is checked. `None` if the runtime ends.
    async fn step(
        &mut self,
        objects: &mut watch::Receiver<Arc<ObjectSet>>,
        memory: &mut StepMemory,
    ) -> Option<ObjectSet> {
        let (newest, policies) = (objects.borrow_and_update().clone(), self.policies.borrow_and_update().clone());
        let (home, known) = (self.home_namespace.clone(), std::mem::take(memory));
        let instances = self.instances.borrow_and_update().clone();
        let work = tokio::task::spawn_blocking(move || merge(&newest, &policies, (home, &instances.spanning), known));
        let Merged { set, verdicts, memory: newer } = work.await.ok()?;
        *memory = newer;
        self.verdicts.send_if_modified(|before| {
            let is_new = **before != verdicts;
            if is_new {
                *before = Arc::new(verdicts);
            }
            is_new
        });
        Some(set)
    }
}

fn merge(
    objects: &ObjectSet,
    policies: &GatewayApiObjects,
    (home_namespace, spanning): (String, &SpanningPolicies),
    mut memory: StepMemory,
) -> Merged {
    let clusters = objects.clusters.iter().map(|document| (name_of(document).to_owned(), Arc::clone(document)));
    let targets = PolicyTargets { is_complete: true, home_namespace, clusters: clusters.collect() };
    let read = memory.policies.read(policies);
    let grants = grants(policies.of(WatchedKind::ReferenceGrant));
    let mut attached = attach_policies(&read, &grants, &targets, &mut memory.memo);
    attached.refuse_spanning(spanning);
    let clusters = memory.documents.merged(&objects.clusters, &attached.in_effect);
    let set = ObjectSet { clusters, ..objects.clone() };
    Merged { set, verdicts: PolicyVerdicts::new(attached, &read), memory }
}

//! Which statuses are wanted: those of objects of which something has changed since the plan before. A plan without a change costs
//! nothing, however many objects there are. Objects that are judged together are wanted together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use portcullis_api::status::ConditionType;
use portcullis_sources::{ObjectKey, StoredStatuses, WatchedKind};
use serde::Serialize;
use serde_json::Value;

use super::replaced_lists::ReplacedLists;
use super::settings_use::SettingsUse;
use super::write::StatusWrite;
use super::write_queue::Uptime;
use super::{KINDS, Writes, apply, key, timestamp};
use crate::serve::gateway_api::GatewayApiVerdicts;
use crate::serve::object_status::ObjectStatus;
use crate::serve::object_statuses::ObjectStatuses;
use crate::serve::policies::PolicyVerdicts;

#[cfg(test)]
mod tests;

/// The time after the start in which gateways reconnect; conditions that only say so are not written.
pub(super) const RECONNECT_TIME: Duration = Duration::from_secs(10);

/// The plans before.
#[derive(Default)]
pub(super) struct Plans {
    /// Of objects whose status is observed.
    pub(super) objects: Option<ObjectPlan>,
    /// Of objects that are judged together, by the group of their kinds.
    pub(super) gateway_api: Option<JudgedPlan<GatewayApiVerdicts>>,
    pub(super) policies: Option<JudgedPlan<PolicyVerdicts>>,
}

/// The inputs of statuses that were wanted last, of objects whose status is observed.
pub(super) struct ObjectPlan {
    objects: Arc<ObjectStatuses>,
    statuses: Arc<StoredStatuses>,
    has_left_out: bool,
    /// The names of `GatewaySettings` that are used.
    used: BTreeSet<String>,
}

/// The same of objects that are judged together: thousands are computed only if one may be another.
pub(super) struct JudgedPlan<V> {
    pub(super) verdicts: Arc<V>,
    pub(super) statuses: Arc<StoredStatuses>,
}

/// A group of kinds that are judged together.
#[derive(Clone, Copy)]
pub(super) struct JudgedKinds {
    /// Whether no stored status of them is another one.
    shares: fn(&StoredStatuses, &StoredStatuses) -> bool,
    /// Whether a kind is one of them.
    has: fn(WatchedKind) -> bool,
}

/// The kinds of the Gateway API.
pub(super) const GATEWAY_API: JudgedKinds =
    JudgedKinds { shares: StoredStatuses::shares_gateway_api, has: WatchedKind::is_for_gateway_api };
/// The kinds of policies.
pub(super) const POLICIES: JudgedKinds =
    JudgedKinds { shares: StoredStatuses::shares_policies, has: |kind| matches!(kind, WatchedKind::Policy(_)) };

impl ObjectPlan {
    /// Whether statuses were left out that only say that gateways reconnect.
    pub(super) fn has_left_out(&self) -> bool {
        self.has_left_out
    }
}

impl<V> JudgedPlan<V> {
    fn is_outdated_by(&self, newest: &Self, kinds: JudgedKinds) -> bool {
        let is_same = Arc::ptr_eq(&self.verdicts, &newest.verdicts);
        !is_same || !(kinds.shares)(&newest.statuses, &self.statuses)
    }
}

/// The wanted statuses of one moment.
pub(super) struct Plan<'a> {
    pub(super) queue: &'a mut Writes,
    pub(super) statuses: &'a Arc<StoredStatuses>,
    pub(super) settings: &'a SettingsUse,
    pub(super) now: Uptime,
    /// The objects whose writes had no visible effect, or may have had none.
    pub(super) repeated: Vec<ObjectKey>,
}

impl Plan<'_> {
    /// Has the statuses written of objects whose status, or what the server has of it, is another one than at the last plan.
    pub(super) fn follow_objects(&mut self, last: &mut Option<ObjectPlan>, objects: &Arc<ObjectStatuses>) {
        let is_over = |plan: &ObjectPlan| plan.has_left_out && self.now >= RECONNECT_TIME;
        let before = last.take().filter(|plan| !is_over(plan));
        let names = self.changed_names(before.as_ref(), objects);
        let is_settings = |key: &ObjectKey| key.kind == WatchedKind::GatewaySettings;
        let mut has_other_settings = self.repeated.iter().any(is_settings)
            || before.as_ref().is_none_or(|plan| {
                !self.statuses.changed_keys(&plan.statuses, WatchedKind::GatewaySettings).is_empty()
            });
        let (mut has_left_out, mut used) =
            before.map_or((false, BTreeSet::new()), |plan| (plan.has_left_out, plan.used));
        for name in names {
            let mut kept = BTreeSet::new();
            for object in objects.named(&name) {
                let Some(key) = key(&object.diagnosis) else { continue };
                has_other_settings |= is_settings(&key);
                kept.extend(self.want_object(object, &key, &mut has_left_out).then_some(key.kind));
            }
            has_other_settings |= used.contains(&name);
            let is_gone = |kind: &WatchedKind| *kind != WatchedKind::GatewaySettings && !kept.contains(kind);
            for kind in KINDS.into_iter().filter(is_gone) {
                self.queue.remove(&ObjectKey::cluster_scoped(kind, name.as_str()));
            }
            if kept.contains(&WatchedKind::GatewaySettings) {
                used.insert(name);
            } else {
                used.remove(&name);
            }
        }
        if has_other_settings {
            self.want_not_used(&used);
        }
        *last =
            Some(ObjectPlan { objects: Arc::clone(objects), statuses: Arc::clone(self.statuses), has_left_out, used });
    }

    /// The names of objects to look at; all of them without a plan before.
    fn changed_names(&self, before: Option<&ObjectPlan>, objects: &Arc<ObjectStatuses>) -> BTreeSet<String> {
        let Some(before) = before else {
            let known = self.queue.keys().filter(|key| KINDS.contains(&key.kind)).map(|key| &key.name);
            return objects.iter().map(|object| &object.diagnosis.name).chain(known).cloned().collect();
        };
        let stored = KINDS.into_iter().flat_map(|kind| self.statuses.changed_keys(&before.statuses, kind));
        let repeated = self.repeated.iter().filter(|key| KINDS.contains(&key.kind));
        let mut names: BTreeSet<String> = stored.chain(repeated).map(|key| key.name.clone()).collect();
        if !Arc::ptr_eq(objects, &before.objects) {
            names.extend(objects.changed_names(&before.objects).into_iter().map(str::to_owned));
        }
        names
    }

    /// Has the status of an object written. Returns whether the object has one.
    fn want_object(&mut self, object: &ObjectStatus, key: &ObjectKey, has_left_out: &mut bool) -> bool {
        let Some(uid) = &object.diagnosis.version.uid else { return false };
        let reconnects = self.now < RECONNECT_TIME;
        match key.kind {
            WatchedKind::UpstreamCluster if reconnects && waits_for_gateways(object) => *has_left_out = true,
            WatchedKind::UpstreamCluster => self.want(key, uid, &object.status),
            WatchedKind::Instance if reconnects && waits_for_envoys(object) => *has_left_out = true,
            WatchedKind::Instance => {
                let Some(status) = object.instance_status() else { return false };
                self.want(key, uid, &status);
            }
            WatchedKind::GatewaySettings if self.settings.uses(&key.name) || is_of_api(object) => {
                self.want_unless(key, uid, &self.settings.used(object), apply::is_there_by_any);
            }
            // Of a file, which may have the name and the UID of an object.
            _ => return false,
        }
        true
    }

    /// Has it written of settings that they are not used.
    fn want_not_used(&mut self, used: &BTreeSet<String>) {
        let (settings, statuses) = (self.settings, self.statuses);
        let mut kept: BTreeSet<&str> = used.iter().map(String::as_str).collect();
        for (name, uid, status) in settings.not_used(statuses, used) {
            self.want(&ObjectKey::cluster_scoped(WatchedKind::GatewaySettings, name), uid, &status);
            kept.insert(name);
        }
        self.queue.keep(|key| key.kind != WatchedKind::GatewaySettings || kept.contains(key.name.as_str()));
    }

    /// Has the statuses written that verdicts lead to, if they may be others than those that were wanted last.
    pub(super) fn follow_judged<V>(
        &mut self,
        last: &mut Option<JudgedPlan<V>>,
        newest: JudgedPlan<V>,
        kinds: JudgedKinds,
        wanted: impl FnOnce(&V, &str) -> Vec<(ObjectKey, Value)>,
    ) {
        let has_repeated = self.repeated.iter().any(|key| (kinds.has)(key.kind));
        if last.as_ref().is_some_and(|last| !has_repeated && !last.is_outdated_by(&newest, kinds)) {
            return;
        }
        let mut kept = BTreeSet::new();
        for (key, status) in wanted(&newest.verdicts, &timestamp().to_string()) {
            self.want_whole(&key, status);
            kept.insert(key);
        }
        self.queue.keep(|key| !(kinds.has)(key.kind) || kept.contains(key));
        *last = Some(newest);
    }

    /// Has a status written, unless it is there.
    fn want(&mut self, key: &ObjectKey, uid: &str, status: &impl Serialize) {
        self.want_unless(key, uid, status, apply::is_there);
    }

    fn want_unless(
        &mut self,
        key: &ObjectKey,
        uid: &str,
        status: &impl Serialize,
        is_there: impl Fn(&Value, &Value) -> bool,
    ) {
        if let Ok(wanted) = apply::applied(key, uid, status) {
            let found = self.statuses.get(key).map_or(&Value::Null, |stored| &stored.status);
            let is_there = wanted.get("status").is_some_and(|wanted| is_there(found, wanted));
            self.queue.want(key, StatusWrite::Apply(wanted), is_there, self.now);
        }
    }

    /// Has the lists of a status written as wholes, unless they are there: they have what others wrote into them.
    fn want_whole(&mut self, key: &ObjectKey, status: Value) {
        if let Some(lists) = self.statuses.get(key).and_then(|stored| ReplacedLists::of(stored, status)) {
            let is_there = lists.are_there();
            self.queue.want(key, StatusWrite::Replace(lists), is_there, self.now);
        }
    }
}

/// Whether settings are an object of the API, which an instance names. One of a file may have its name and its UID.
fn is_of_api(settings: &ObjectStatus) -> bool {
    settings.diagnosis.at.is_none()
}

fn waits_for_envoys(instance: &ObjectStatus) -> bool {
    let ready = instance.status.condition(ConditionType::Ready);
    ready.is_some_and(|one| ["NoEnvoys", "NotServed", "Pending"].contains(&one.reason.as_str()))
}

fn waits_for_gateways(object: &ObjectStatus) -> bool {
    let reason = |kind| object.status.condition(kind).map(|one| one.reason.as_str());
    // Of an Envoy whose agent was back before it another replica may have more, and one that has just begun has not asked for everything.
    matches!(reason(ConditionType::Programmed), Some("NoGateways" | "OtherReplicas" | "Pending"))
        || [ConditionType::Ready, ConditionType::ShadowDiffers, ConditionType::LimitsShared]
            .into_iter()
            .any(|kind| reason(kind) == Some("NoReport"))
}

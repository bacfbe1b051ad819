use std::collections::BTreeMap;
use std::sync::Arc;

use kube::runtime::watcher::Event;
use portcullis_api::{ReferencedData, SecretData, absent_settings, resolve_settings};
use serde_json::Value;

use super::documents::WatchedObject;
use super::known::Known;
use super::watches::{Absence, Watch};
use super::{GatewayApiObjects, ObjectKey, StoredStatus, WatchedKind};
use crate::object_set::ObjectSet;

/// The stored status of every object.
pub type StoredStatuses = BTreeMap<ObjectKey, StoredStatus>;

/// The objects of the sessions.
pub(super) struct Store {
    objects: BTreeMap<WatchedKind, Known<WatchedObject>>,
    /// By the kind that refers to them.
    secrets: BTreeMap<WatchedKind, Known<SecretData>>,
    /// The same as they were in the set that was taken last, as long as none is another one.
    shared_secrets: BTreeMap<WatchedKind, Arc<BTreeMap<String, SecretData>>>,
    /// The name of the `GatewaySettings` that are used, if objects are.
    settings: Option<String>,
    /// Whether the set may be other than when it was taken last. A status that is written changes none.
    is_changed: bool,
    /// Whether a status may be other than when they were taken last.
    has_new_status: bool,
    /// Whether objects for the Gateway API may be other than when they were taken last.
    has_new_gateway_api: bool,
}

impl Store {
    /// An empty one, complete when all that is watched is.
    pub(super) fn new(watches: &[Watch], settings: Option<String>) -> Self {
        let secrets = watches.iter().filter(|watch| watch.has_secrets);
        Self {
            objects: watches.iter().map(|watch| (watch.kind, Known::default())).collect(),
            secrets: secrets.map(|watch| (watch.kind, Known::default())).collect(),
            shared_secrets: BTreeMap::new(),
            settings,
            is_changed: false,
            has_new_status: false,
            has_new_gateway_api: false,
        }
    }

    /// Begins a session: all is to be listed anew.
    pub(super) fn begin(&mut self) {
        self.objects.values_mut().for_each(Known::begin);
        self.secrets.values_mut().for_each(Known::begin);
    }

    pub(super) fn object(&mut self, kind: WatchedKind, event: Event<(String, WatchedObject)>) {
        let Some(known) = self.objects.get_mut(&kind) else { return };
        self.has_new_status |= match &event {
            Event::Apply((name, now)) => known.current.get(name).is_none_or(|before| before.stored != now.stored),
            Event::Delete(_) | Event::InitDone => true,
            Event::Init | Event::InitApply(_) => false,
        };
        let is_changed = known.apply(event, |before, now| before.document == now.document);
        self.mark(kind, is_changed);
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, kind: WatchedKind, path: &str) {
        let removed = self.objects.get_mut(&kind).and_then(|known| known.current.remove(path));
        if removed.is_some() {
            self.has_new_status = true;
            self.mark(kind, true);
        }
    }

    fn mark(&mut self, kind: WatchedKind, is_changed: bool) {
        match kind.is_for_gateway_api() {
            true => self.has_new_gateway_api |= is_changed,
            false => self.is_changed |= is_changed,
        }
    }

    pub(super) fn secret(&mut self, kind: WatchedKind, event: Event<(String, SecretData)>) {
        let Some(known) = self.secrets.get_mut(&kind) else { return };
        let is_changed = known.apply(event, |before, now| before == now);
        self.is_changed |= is_changed;
        if is_changed {
            self.shared_secrets.remove(&kind);
        }
    }

    /// Objects of this kind are not looked at. Those that were known before a right was lost stay, as in an outage.
    pub(super) fn absent(&mut self, kind: WatchedKind, absence: Absence) {
        let Some(known) = self.objects.get_mut(&kind) else { return };
        if absence == Absence::Forbidden && !known.current.is_empty() {
            known.is_complete = true;
        } else if !known.is_complete || !known.current.is_empty() {
            known.clear();
            self.has_new_status = true;
            self.mark(kind, true);
        }
    }

    /// Whether all lists are complete: before, a set would lack objects and Envoy would drop them.
    pub(super) fn is_complete(&self) -> bool {
        self.objects.values().all(|known| known.is_complete) && self.secrets.values().all(|known| known.is_complete)
    }

    /// Everything, in the order of names; `None` if it is what was taken last, or not complete.
    pub(super) fn take_changed(&mut self) -> Option<ObjectSet> {
        if !self.is_complete() || !std::mem::take(&mut self.is_changed) {
            return None;
        }
        for (kind, known) in &self.secrets {
            self.shared_secrets.entry(*kind).or_insert_with(|| Arc::new(known.current.clone()));
        }
        let clusters =
            self.objects.get(&WatchedKind::UpstreamCluster).into_iter().flat_map(|known| known.current.values());
        Some(ObjectSet {
            clusters: clusters.map(|one| one.document.clone()).collect(),
            settings: self.settings().into_iter().collect(),
            referenced_data: self.secrets_of(WatchedKind::UpstreamCluster),
            ..ObjectSet::default()
        })
    }

    /// The settings that are used, with what they refer to. A document that is refused is in the place of those that are not there.
    fn settings(&self) -> Option<Value> {
        let name = self.settings.as_ref()?;
        let found = self.objects.get(&WatchedKind::GatewaySettings).and_then(|known| known.current.get(name));
        let Some(found) = found else { return Some(absent_settings(name)) };
        let mut document = found.document.as_ref().clone();
        resolve_settings(&mut document, &self.secrets_of(WatchedKind::GatewaySettings));
        Some(document)
    }

    fn secrets_of(&self, kind: WatchedKind) -> ReferencedData {
        let of_kind = self.shared_secrets.get(&kind).cloned();
        ReferencedData::Secrets(of_kind.unwrap_or_default())
    }

    /// The objects for the Gateway API; `None` if they are what was taken last, or not complete.
    pub(super) fn take_gateway_api(&mut self) -> Option<GatewayApiObjects> {
        if !self.is_complete() || !std::mem::take(&mut self.has_new_gateway_api) {
            return None;
        }
        let mut objects = GatewayApiObjects::default();
        for (kind, known) in self.objects.iter().filter(|(kind, _)| kind.is_for_gateway_api()) {
            objects.insert(*kind, known.current.values().map(|one| Arc::clone(&one.document)).collect());
        }
        Some(objects)
    }

    /// The status of every object; `None` if they are what was taken last, or not complete.
    pub(super) fn take_statuses(&mut self) -> Option<StoredStatuses> {
        if !self.is_complete() || !std::mem::take(&mut self.has_new_status) {
            return None;
        }
        let of_kind = |(kind, known): (&WatchedKind, &Known<WatchedObject>)| {
            let key = |name: &String| ObjectKey::of_path(*kind, name);
            known.current.iter().map(|(name, one)| (key(name), one.stored.clone())).collect::<Vec<_>>()
        };
        Some(self.objects.iter().flat_map(of_kind).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: WatchedKind = WatchedKind::UpstreamCluster;
    const SETTINGS: WatchedKind = WatchedKind::GatewaySettings;

    fn store(settings: Option<&str>) -> Store {
        let watches = [
            Watch { kind: CLUSTER, is_required: true, has_secrets: true },
            Watch { kind: SETTINGS, is_required: settings.is_some(), has_secrets: settings.is_some() },
        ];
        Store::new(&watches, settings.map(str::to_owned))
    }

    fn object(document: impl Into<Value>, status: u32) -> (String, WatchedObject) {
        let stored = StoredStatus { status: status.into(), ..StoredStatus::default() };
        ("a".to_owned(), WatchedObject { document: Arc::new(document.into()), stored })
    }

    fn secret(owner: &str) -> (String, SecretData) {
        ("s".to_owned(), SecretData { owners: [owner.to_owned()].into(), ..SecretData::default() })
    }

    #[test]
    fn set_is_new_when_a_document_or_a_secret_is() {
        let mut store = store(None);
        store.absent(SETTINGS, Absence::NoKind);
        store.object(CLUSTER, Event::Init);
        store.object(CLUSTER, Event::InitApply(object(1, 1)));
        store.object(CLUSTER, Event::InitDone);
        assert_eq!(store.take_changed(), None, "the Secrets are not listed yet");
        store.secret(CLUSTER, Event::Init);
        store.secret(CLUSTER, Event::InitDone);
        assert_eq!(store.take_changed().unwrap().clusters, [Arc::new(Value::from(1))]);
        store.object(CLUSTER, Event::Apply(object(1, 2)));
        assert_eq!(store.take_changed(), None);
        store.object(CLUSTER, Event::Apply(object(2, 2)));
        assert_eq!(store.take_changed().unwrap().clusters, [Arc::new(Value::from(2))]);
        for (event, is_new) in [
            (Event::Apply(secret("a")), true),
            (Event::Apply(secret("a")), false),
            (Event::Apply(secret("b")), true),
            (Event::Delete(secret("b")), true),
            (Event::Delete(secret("b")), false),
        ] {
            store.secret(CLUSTER, event);
            assert_eq!(store.take_changed().is_some(), is_new);
        }
        store.object(CLUSTER, Event::Delete(object(2, 2)));
        let set = store.take_changed().unwrap();
        assert!(set.clusters.is_empty() && set.settings.is_empty() && store.take_statuses().unwrap().is_empty());
    }

    #[test]
    fn statuses_are_told_when_one_is_new() {
        let mut store = store(None);
        store.absent(SETTINGS, Absence::NoKind);
        store.secret(CLUSTER, Event::InitDone);
        store.object(CLUSTER, Event::InitApply(object(1, 1)));
        assert_eq!(store.take_statuses(), None);
        store.object(CLUSTER, Event::InitDone);
        for (event, is_new) in [
            (Event::Init, true),
            (Event::Init, false),
            (Event::Apply(object(2, 1)), false),
            (Event::Apply(object(2, 2)), true),
            (Event::Delete(object(2, 2)), true),
        ] {
            store.object(CLUSTER, event);
            assert_eq!(store.take_statuses().is_some(), is_new);
        }
    }

    #[test]
    fn objects_stay_when_a_right_is_lost_and_go_with_their_kind() {
        let mut store = store(None);
        store.object(CLUSTER, Event::InitDone);
        store.secret(CLUSTER, Event::InitDone);
        store.absent(SETTINGS, Absence::Forbidden);
        assert!(store.take_statuses().unwrap().is_empty());
        store.object(SETTINGS, Event::InitApply(object(1, 1)));
        store.object(SETTINGS, Event::InitDone);
        assert_eq!(store.take_statuses().unwrap().len(), 1);
        store.absent(SETTINGS, Absence::Forbidden);
        assert_eq!(store.take_statuses(), None);
        // Also in the next session.
        store.begin();
        store.object(CLUSTER, Event::InitDone);
        store.secret(CLUSTER, Event::InitDone);
        assert!(!store.is_complete());
        store.absent(SETTINGS, Absence::Forbidden);
        assert_eq!(store.take_statuses().unwrap().len(), 1);
        store.absent(SETTINGS, Absence::NoKind);
        assert!(store.take_statuses().unwrap().is_empty());
    }

    #[test]
    fn settings_are_the_named_object_or_a_refused_document() {
        let document = |name: &str| {
            serde_json::json!({
                "metadata": {"name": name}, "spec": {"defaultClientCA": {"secret": {"name": "s"}}},
            })
        };
        let mut store = store(Some("a"));
        store.object(CLUSTER, Event::InitDone);
        store.secret(CLUSTER, Event::InitDone);
        store.object(SETTINGS, Event::InitDone);
        assert_eq!(store.take_changed(), None, "their Secrets are not listed yet");
        store.secret(SETTINGS, Event::InitDone);
        assert_eq!(store.take_changed().unwrap().settings, [absent_settings("a")]);
        store.object(SETTINGS, Event::Apply(object(document("a"), 1)));
        let settings = store.take_changed().unwrap().settings;
        assert_eq!(settings, [document("a")], "the reference is not resolved");
        let ca = SecretData {
            owners: ["a".to_owned()].into(),
            data: [("ca.crt".to_owned(), portcullis_api::SecretBytes::new(b"x".to_vec()))].into(),
        };
        // A Secret of a cluster of the same name is none of theirs.
        store.secret(CLUSTER, Event::Apply(("s".to_owned(), ca.clone())));
        assert_eq!(store.take_changed().unwrap().settings, settings);
        store.secret(SETTINGS, Event::Apply(("s".to_owned(), ca)));
        assert_eq!(store.take_changed().unwrap().settings[0]["spec"]["defaultClientCA"]["data"], "eA==");
        store.object(SETTINGS, Event::Delete(object(document("a"), 1)));
        assert_eq!(store.take_changed().unwrap().settings, [absent_settings("a")]);
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::runtime::watcher::Event;
use portcullis_api::{ReferencedData, SecretData, absent_settings, resolve_settings};
use serde_json::Value;

use super::WatchedKind;
use super::documents::WatchedObject;
use super::known::Known;
use super::statuses::StatusByKey;
use crate::object_set::ObjectSet;

/// The objects of the clusters' sessions.
pub(super) struct Store {
    objects: BTreeMap<WatchedKind, Known<WatchedObject>>,
    /// By the kind that refers to them.
    secrets: BTreeMap<WatchedKind, Known<Arc<SecretData>>>,
    /// The same as they were in the set that was taken last, as long as none is another one.
    shared_secrets: BTreeMap<WatchedKind, Arc<BTreeMap<String, Arc<SecretData>>>>,
    /// The name of the `GatewaySettings` that are used, if objects are.
    settings: Option<String>,
    /// Whether the set may be other than when it was taken last. A status that is written changes none.
    is_changed: bool,
    /// The kinds of which a status may be other than when they were taken last.
    with_new_status: BTreeSet<WatchedKind>,
}

impl Store {
    /// An empty one, complete when objects of these kinds are, and the Secrets to which they may refer.
    pub(super) fn new(kinds: &[WatchedKind], settings: Option<String>) -> Self {
        Self {
            objects: kinds.iter().map(|kind| (*kind, Known::default())).collect(),
            secrets: kinds.iter().filter(|kind| kind.has_secrets()).map(|kind| (*kind, Known::default())).collect(),
            shared_secrets: BTreeMap::new(),
            settings,
            is_changed: false,
            with_new_status: BTreeSet::new(),
        }
    }

    /// Begins a session: all is to be listed anew.
    pub(super) fn begin(&mut self) {
        self.objects.values_mut().for_each(Known::begin);
        self.secrets.values_mut().for_each(Known::begin);
    }

    pub(super) fn object(&mut self, kind: WatchedKind, event: Event<(String, WatchedObject)>) {
        let Some(known) = self.objects.get_mut(&kind) else { return };
        let has_new_status = match &event {
            Event::Apply((name, now)) => known.current.get(name).is_none_or(|before| before.stored != now.stored),
            Event::Delete(_) | Event::InitDone => true,
            Event::Init | Event::InitApply(_) => false,
        };
        if has_new_status {
            self.with_new_status.insert(kind);
        }
        self.is_changed |= known.apply(event, |before, now| before.document == now.document);
    }

    pub(super) fn secret(&mut self, kind: WatchedKind, event: Event<(String, Arc<SecretData>)>) {
        let Some(known) = self.secrets.get_mut(&kind) else { return };
        let is_changed = known.apply(event, |before, now| before == now);
        self.is_changed |= is_changed;
        if is_changed {
            self.shared_secrets.remove(&kind);
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
        let documents = |kind: WatchedKind| {
            let known = self.objects.get(&kind).into_iter();
            known.flat_map(|known| known.current.values()).map(|one| one.document.clone()).collect()
        };
        Some(ObjectSet {
            clusters: documents(WatchedKind::UpstreamCluster),
            instances: documents(WatchedKind::Instance),
            settings: self.settings().into_iter().collect(),
            instance_settings: self.instance_settings(),
            referenced_data: self.secrets_of(WatchedKind::UpstreamCluster),
            ..ObjectSet::default()
        })
    }

    /// The settings that are used, with what they refer to. A document that is refused is in the place of those that are not there.
    fn settings(&self) -> Option<Value> {
        let name = self.settings.as_ref()?;
        let found = self.objects.get(&WatchedKind::GatewaySettings).and_then(|known| known.current.get(name));
        let Some(found) = found else { return Some(absent_settings(name)) };
        Some(self.resolved(found))
    }

    /// All settings, with what they refer to; none where no instance can name them.
    fn instance_settings(&self) -> Vec<Arc<Value>> {
        let is_named = self.objects.contains_key(&WatchedKind::Instance);
        let known = self.objects.get(&WatchedKind::GatewaySettings).filter(|_| is_named).into_iter();
        known.flat_map(|known| known.current.values()).map(|found| Arc::new(self.resolved(found))).collect()
    }

    fn resolved(&self, settings: &WatchedObject) -> Value {
        let mut document = settings.document.as_ref().clone();
        resolve_settings(&mut document, &self.secrets_of(WatchedKind::GatewaySettings));
        document
    }

    fn secrets_of(&self, kind: WatchedKind) -> ReferencedData {
        let of_kind = self.shared_secrets.get(&kind).cloned();
        ReferencedData::Secrets(of_kind.unwrap_or_default())
    }

    /// The status of every object, of the kinds of which one may be new; nothing before the lists are complete.
    pub(super) fn take_statuses(&mut self) -> BTreeMap<WatchedKind, StatusByKey> {
        if !self.is_complete() {
            return BTreeMap::new();
        }
        let of_kind = |kind: WatchedKind| {
            let known = self.objects.get(&kind)?;
            let stored = |one: &WatchedObject| (Arc::clone(&one.key), Arc::clone(&one.stored));
            Some((kind, known.current.values().map(stored).collect()))
        };
        std::mem::take(&mut self.with_new_status).into_iter().filter_map(of_kind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::{ObjectKey, StoredStatus};

    const CLUSTER: WatchedKind = WatchedKind::UpstreamCluster;
    const SETTINGS: WatchedKind = WatchedKind::GatewaySettings;

    #[test]
    fn set_has_instances_when_they_are_listed_and_not_before() {
        let (instance, mut store) = (WatchedKind::Instance, Store::new(&[CLUSTER, WatchedKind::Instance], None));
        store.begin();
        store.secret(CLUSTER, Event::InitDone);
        store.object(CLUSTER, Event::InitDone);
        assert!(store.take_changed().is_none(), "every cluster would belong to no instance");
        store.object(instance, Event::InitDone);
        assert_eq!(store.take_changed().unwrap().instances.len(), 0);
    }

    #[test]
    fn instances_have_all_settings_with_their_secrets() {
        let reference = serde_json::json!({"secret": {"name": "s"}});
        let document =
            |name: &str| serde_json::json!({"metadata": {"name": name}, "spec": {"defaultClientCA": reference}});
        let ca = |owner: &str| {
            let (owners, bytes) = ([owner.to_owned()].into(), portcullis_api::SecretBytes::new(b"x".to_vec()));
            Arc::new(SecretData { owners, data: [("ca.crt".to_owned(), bytes)].into() })
        };
        for kinds in [&[CLUSTER, SETTINGS, WatchedKind::Instance][..], &[CLUSTER, SETTINGS]] {
            let mut store = Store::new(kinds, Some("a".to_owned()));
            store.secret(CLUSTER, Event::InitDone);
            store.secret(SETTINGS, Event::InitDone);
            kinds.iter().for_each(|kind| store.object(*kind, Event::InitDone));
            for name in ["a", "b"] {
                let (_, settings) = object(document(name), 1);
                store.object(SETTINGS, Event::Apply((name.to_owned(), settings)));
            }
            store.secret(SETTINGS, Event::Apply(("s".to_owned(), ca("b"))));
            let set = store.take_changed().unwrap();
            assert_eq!(set.settings, [document("a")], "the Secret is of others");
            let found: Vec<_> = set.instance_settings.iter().map(|one| &one["spec"]["defaultClientCA"]).collect();
            let expected = [&reference, &serde_json::json!({"data": "eA=="})];
            assert_eq!(found, expected[..if kinds.len() == 3 { 2 } else { 0 }]);
        }
    }

    fn store(settings: Option<&str>) -> Store {
        let kinds: Vec<_> = [CLUSTER].into_iter().chain(settings.map(|_| SETTINGS)).collect();
        Store::new(&kinds, settings.map(str::to_owned))
    }

    fn object(document: impl Into<Value>, status: u32) -> (String, WatchedObject) {
        let stored = StoredStatus { status: status.into(), ..StoredStatus::default() };
        let (key, document) = (Arc::new(ObjectKey::cluster_scoped(CLUSTER, "a")), Arc::new(document.into()));
        ("a".to_owned(), WatchedObject { key, document, stored: Arc::new(stored), bytes: 0 })
    }

    fn secret(owner: &str) -> (String, Arc<SecretData>) {
        ("s".to_owned(), Arc::new(SecretData { owners: [owner.to_owned()].into(), ..SecretData::default() }))
    }

    #[test]
    fn set_is_new_when_a_document_or_a_secret_is() {
        let mut store = store(None);
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
        assert!(set.clusters.is_empty() && set.settings.is_empty() && store.take_statuses()[&CLUSTER].is_empty());
    }

    #[test]
    fn statuses_are_told_when_one_is_new() {
        let mut store = store(None);
        store.secret(CLUSTER, Event::InitDone);
        store.object(CLUSTER, Event::InitApply(object(1, 1)));
        assert!(store.take_statuses().is_empty());
        store.object(CLUSTER, Event::InitDone);
        for (event, is_new) in [
            (Event::Init, true),
            (Event::Init, false),
            (Event::Apply(object(2, 1)), false),
            (Event::Apply(object(2, 2)), true),
            (Event::Delete(object(2, 2)), true),
        ] {
            store.object(CLUSTER, event);
            assert_eq!(store.take_statuses().contains_key(&CLUSTER), is_new);
        }
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
        let ca = Arc::new(SecretData {
            owners: ["a".to_owned()].into(),
            data: [("ca.crt".to_owned(), portcullis_api::SecretBytes::new(b"x".to_vec()))].into(),
        });
        // A Secret of a cluster of the same name is none of theirs.
        store.secret(CLUSTER, Event::Apply(("s".to_owned(), ca.clone())));
        assert_eq!(store.take_changed().unwrap().settings, settings);
        store.secret(SETTINGS, Event::Apply(("s".to_owned(), ca)));
        assert_eq!(store.take_changed().unwrap().settings[0]["spec"]["defaultClientCA"]["data"], "eA==");
        store.object(SETTINGS, Event::Delete(object(document("a"), 1)));
        assert_eq!(store.take_changed().unwrap().settings, [absent_settings("a")]);
    }
}

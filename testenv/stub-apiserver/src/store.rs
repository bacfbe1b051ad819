//! Objects in memory with one counter of resource versions, and the log of changes that watches read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::clock;
use crate::resources::Resource;

/// An object's place: group, resource, namespace, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Which objects are meant.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    /// Empty = all.
    pub(crate) namespace: String,
    /// Empty = all.
    pub(crate) name: String,
}

impl Filter {
    fn matches(&self, key: &Key) -> bool {
        let here = self.namespace.is_empty() || self.namespace == key.namespace;
        let named = self.name.is_empty() || self.name == key.name;
        here && named && self.group == key.group && self.resource == key.resource
    }
}

/// One change: `ADDED`, `MODIFIED` or `DELETED`.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) kind: &'static str,
    key: Key,
    pub(crate) object: Value,
}

/// Why a write was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Exists,
    Absent,
    Stale,
}

#[derive(Debug)]
pub(crate) struct Store {
    inner: Mutex<Inner>,
    latest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    version: u64,
    objects: BTreeMap<Key, Value>,
    log: Vec<Change>,
}

/// Objects that several stubs share, as kube-apiservers share an etcd.
#[derive(Debug, Clone)]
pub struct SharedStore(pub(crate) std::sync::Arc<Store>);

impl Default for SharedStore {
    fn default() -> Self {
        Self(std::sync::Arc::new(Store::new()))
    }
}

impl Store {
    /// A store with the namespaces `default` and `kube-system`.
    pub(crate) fn new() -> Self {
        let store = Self { inner: Mutex::default(), latest: watch::Sender::new(0) };
        for name in ["default", "kube-system"] {
            let key = Key { group: "", resource: "namespaces", namespace: String::new(), name: name.to_owned() };
            // Cannot exist yet.
            let _ = store.create(key, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}}));
        }
        store
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Value> {
        self.lock().objects.get(key).cloned()
    }

    /// Matching objects and the version of this state.
    pub(crate) fn list(&self, filter: &Filter) -> (Vec<Value>, u64) {
        let inner = self.lock();
        let matching = inner.objects.iter().filter(|(key, _)| filter.matches(key));
        (matching.map(|(_, object)| object.clone()).collect(), inner.version)
    }

    pub(crate) fn keys(&self, filter: &Filter) -> Vec<Key> {
        self.lock().objects.keys().filter(|key| filter.matches(key)).cloned().collect()
    }

    pub(crate) fn create(&self, key: Key, mut object: Value) -> Result<Value, Refused> {
        let mut inner = self.lock();
        if inner.objects.contains_key(&key) {
            return Err(Refused::Exists);
        }
        let number = inner.version + 1;
        set_metadata(&mut object, "uid", json!(format!("00000000-0000-4000-8000-{number:012x}")));
        set_metadata(&mut object, "creationTimestamp", json!(clock::now()));
        Ok(self.commit(&mut inner, "ADDED", key, object))
    }

    /// Replaces an object; a resourceVersion in it must be the current one.
    pub(crate) fn update(&self, key: Key, mut object: Value) -> Result<Value, Refused> {
        let mut inner = self.lock();
        let old = inner.objects.get(&key).ok_or(Refused::Absent)?;
        let claimed = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let current = old.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        if !claimed.is_empty() && claimed != current {
            return Err(Refused::Stale);
        }
        for field in ["uid", "creationTimestamp"] {
            let value = old.get("metadata").and_then(|metadata| metadata.get(field)).cloned().unwrap_or_default();
            set_metadata(&mut object, field, value);
        }
        Ok(self.commit(&mut inner, "MODIFIED", key, object))
    }

    pub(crate) fn delete(&self, key: Key) -> Result<Value, Refused> {
        let mut inner = self.lock();
        let object = inner.objects.get(&key).cloned().ok_or(Refused::Absent)?;
        Ok(self.commit(&mut inner, "DELETED", key, object))
    }

    /// Matching changes after a version, with the version up to which the log was read.
    pub(crate) fn changes_after(&self, filter: &Filter, version: u64) -> (Vec<Change>, u64) {
        let inner = self.lock();
        let newer = inner.log.iter().filter(|change| change.version > version && filter.matches(&change.key));
        (newer.cloned().collect(), inner.version)
    }

    /// Changes when there is something new.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    fn commit(&self, inner: &mut Inner, kind: &'static str, key: Key, mut object: Value) -> Value {
        inner.version += 1;
        let version = inner.version;
        set_metadata(&mut object, "resourceVersion", json!(version.to_string()));
        if kind == "DELETED" {
            inner.objects.remove(&key);
        } else {
            inner.objects.insert(key.clone(), object.clone());
        }
        inner.log.push(Change { version, kind, key, object: object.clone() });
        self.latest.send_replace(version);
        object
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    pub(crate) fn new(served: &'static Resource, namespace: &str, name: &str) -> Self {
        let (group, resource) = (served.group, served.plural);
        Self { group, resource, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Sets one field of an object's metadata.
pub(crate) fn set_metadata(object: &mut Value, field: &str, value: Value) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert(field.to_owned(), value);
    }
}

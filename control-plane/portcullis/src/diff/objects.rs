//! Objects beside clusters by which these are judged: `GatewaySettings` of instances, and `Instances`.

use std::collections::BTreeMap;

use portcullis_api::{INSTANCE_KIND, SETTINGS_KIND};
use portcullis_sources::ObjectSet;
use serde_json::{Value, json};

use super::fields::{ChangedField, changes};
use crate::explain::name_of;

/// An object that is not the same on both sides.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangedObject {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) change: ObjectChange,
}

/// The change of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ObjectChange {
    Removed,
    Added,
    /// These fields differ.
    Fields(Vec<ChangedField>),
}

/// The objects that differ, without the settings of all gateways.
pub(super) fn changed_objects(old: &ObjectSet, new: &ObjectSet) -> Vec<ChangedObject> {
    let settings = [old, new].map(|set| {
        let own = set.instance_settings.iter().filter(|document| !set.settings.contains(document.as_ref()));
        own.map(|document| (name_of(document), document.as_ref())).collect()
    });
    let instances = [old, new].map(|set| {
        let all = set.instances.iter();
        all.map(|document| (name_of(document), document.as_ref())).collect()
    });
    [(SETTINGS_KIND, settings), (INSTANCE_KIND, instances)]
        .into_iter()
        .flat_map(|(kind, sides)| of_kind(kind, &sides))
        .collect()
}

fn of_kind(kind: &'static str, [old, new]: &[BTreeMap<&str, &Value>; 2]) -> Vec<ChangedObject> {
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    let changed = |name: &&str| {
        let change = match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => Some(changes(old, new)).filter(|all| !all.is_empty()).map(ObjectChange::Fields),
            (Some(_), None) => Some(ObjectChange::Removed),
            (None, _) => Some(ObjectChange::Added),
        };
        Some(ChangedObject { kind, name: (*name).to_owned(), change: change? })
    };
    names.filter_map(changed).collect()
}

impl ChangedObject {
    pub(super) fn json(&self) -> Value {
        let (change, fields) = match &self.change {
            ObjectChange::Removed => ("removed", &[][..]),
            ObjectChange::Added => ("added", &[][..]),
            ObjectChange::Fields(fields) => ("changed", fields.as_slice()),
        };
        let fields: Vec<Value> = fields.iter().map(ChangedField::json).collect();
        json!({"kind": self.kind, "name": self.name, "change": change, "fields": fields})
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn settings_of_instances_and_instances_are_compared_by_name() {
        let object = |name: &str, port: u16| json!({"metadata": {"name": name}, "spec": {"listener": {"port": port}}});
        let set = |settings: &[Value], instances: &[Value]| ObjectSet {
            settings: vec![object("all", 1)],
            instance_settings: settings.iter().cloned().map(Arc::new).collect(),
            instances: instances.iter().cloned().map(Arc::new).collect(),
            ..ObjectSet::default()
        };
        let old = set(&[object("all", 1), object("a", 1), object("gone", 1), object("same", 1)], &[object("i", 1)]);
        let new = set(&[object("all", 1), object("same", 1), object("a", 2), object("new", 1)], &[object("i", 1)]);
        let found = changed_objects(&old, &new);
        let named: Vec<(&str, Value)> =
            found.iter().map(|one| (one.name.as_str(), one.json()["change"].clone())).collect();
        assert_eq!(named, [("a", json!("changed")), ("gone", json!("removed")), ("new", json!("added"))]);
        assert_eq!(found[0].json()["fields"][0]["path"], "spec.listener.port");
        assert_eq!(changed_objects(&new, &new), []);
    }
}

//! The status of an `UpstreamCluster`, an `Instance` or `GatewaySettings`: the object to apply, and whether its status is there.

use kube::api::{Patch, PatchParams};
use kube::{Client, Error};
use portcullis_sources::ObjectKey;
use serde::Serialize;
use serde_json::{Value, json};

use super::MANAGER;

/// Applies an object.
pub(super) async fn apply(client: Client, key: &ObjectKey, object: &Value) -> Result<(), Error> {
    // Force takes back fields of ours that another writer changed.
    let parameters = PatchParams::apply(MANAGER).force();
    let objects = key.kind.api_in(client, &key.namespace);
    objects.patch_status(&key.name, &parameters, &Patch::Apply(object)).await.map(drop)
}

/// The lists of a status whose entries the server knows by a key: others may add entries of their own.
const KEYED: [(&str, &str); 2] = [("conditions", "type"), ("gateways", "name")];

/// The object to apply: all the fields of this manager. The UID makes the server refuse it if another object has the name by
/// now.
pub(super) fn applied(key: &ObjectKey, uid: &str, status: &impl Serialize) -> serde_json::Result<Value> {
    let status = serde_json::to_value(status)?;
    Ok(json!({
        "apiVersion": key.kind.api_version(),
        "kind": key.kind.kind(),
        "metadata": {"name": key.name, "uid": uid},
        "status": status,
    }))
}

/// Whether a status holds all that is wanted, and no other gateway. Additions of other managers do not matter.
pub(super) fn is_there(found: &Value, wanted: &Value) -> bool {
    let (Some(found), Some(wanted)) = (found.as_object(), wanted.as_object()) else { return false };
    let ours = ["observedGeneration", "contentHash", "names", "instance", "moreGateways", "controlPlane", "defaults"];
    // A list in one kind, and a number in another.
    let numbers = ["gateways", "clusters", "envoys", "gatewayEnvoys"];
    let numbers = numbers.into_iter().filter(|field| wanted.get(*field).is_some_and(Value::is_number));
    if ours.into_iter().chain(numbers).any(|field| found.get(field) != wanted.get(field)) {
        return false;
    }
    let list = |of: &serde_json::Map<String, Value>, field: &str| {
        of.get(field).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let same = |(field, key): &(&str, &str)| {
        let (found, wanted) = (list(found, field), list(wanted, field));
        let twin = |one: &Value| found.iter().find(|other| other.get(*key) == one.get(*key)).cloned();
        wanted.iter().all(|one| twin(one).as_ref() == Some(one))
            && (*field != "gateways" || found.len() == wanted.len())
    };
    KEYED.iter().all(same)
}

/// Whether a status holds all that is wanted, but for another writer's name: of two control planes that use the same settings, each
/// would put its own there for ever.
pub(super) fn is_there_by_any(found: &Value, wanted: &Value) -> bool {
    let mut wanted = wanted.clone();
    if let (Some(by), Some(fields)) = (found.get("controlPlane"), wanted.as_object_mut()) {
        fields.insert("controlPlane".to_owned(), by.clone());
    }
    is_there(found, &wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_two_control_planes_are_written_by_one() {
        let by = |control_plane: &str, generation: u32| {
            let mut status = status();
            status["controlPlane"] = control_plane.into();
            status["observedGeneration"] = generation.into();
            status
        };
        let wanted = by("a/b", 3);
        for (found, expected) in [(by("a/b", 3), true), (by("c/d", 3), true), (by("c/d", 2), false), (status(), false)]
        {
            assert_eq!(is_there_by_any(&found, &wanted), expected, "{found}");
        }
    }

    fn status() -> Value {
        json!({
            "observedGeneration": 3,
            "contentHash": "c0ffee",
            "conditions": [{"type": "Accepted", "status": "True"}, {"type": "Ready", "status": "True"}],
            "gateways": [{"name": "a", "state": "Pending"}],
        })
    }

    #[test]
    fn fields_of_others_do_not_change_the_comparison() {
        let wanted = status();
        let with = |pointer: &str, value: Value| {
            let mut found = status();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            found.pointer_mut(parent).unwrap()[field] = value;
            found
        };
        let mut reordered = status();
        let conditions = reordered["conditions"].as_array_mut().unwrap();
        conditions.reverse();
        conditions.push(json!({"type": "example.com/Theirs", "status": "True"}));
        let mut more = status();
        more["gateways"].as_array_mut().unwrap().push(json!({"name": "gone"}));
        let table = [
            (status(), true),
            (with("/theirs", json!({"x": 1})), true),
            (reordered, true),
            (Value::Null, false),
            (json!({}), false),
            (with("/observedGeneration", json!(2)), false),
            (with("/moreGateways", json!(2)), false),
            (json!({"conditions": [], "observedGeneration": 3, "contentHash": "c0ffee"}), false),
            (more, false),
        ];
        for (found, expected) in table {
            assert_eq!(is_there(&found, &wanted), expected, "{found}");
        }
        let mut other = status();
        other["conditions"][1]["status"] = "False".into();
        assert!(!is_there(&other, &wanted));
        let numbers = |envoys: usize| json!({"gateways": 1, "clusters": 2, "envoys": envoys, "conditions": []});
        assert!(is_there(&numbers(3), &numbers(3)) && !is_there(&numbers(3), &numbers(4)));
        let at_gateways = |envoys: usize| json!({"gatewayEnvoys": envoys});
        assert!(is_there(&at_gateways(3), &at_gateways(3)) && !is_there(&at_gateways(3), &at_gateways(4)));
    }
}

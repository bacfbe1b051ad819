use portcullis_api::status::ClusterStatus;
use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND};
use serde_json::{Value, json};

/// The lists of a status whose entries the server knows by a key: others may add entries of their own.
const KEYED: [(&str, &str); 2] = [("conditions", "type"), ("gateways", "name")];

/// The object to apply: all the fields of this manager. The UID makes the server refuse it if another object has the name by
/// now.
pub(super) fn applied(name: &str, uid: &str, status: &ClusterStatus) -> serde_json::Result<Value> {
    let status = serde_json::to_value(status)?;
    Ok(json!({
        "apiVersion": CLUSTER_API_VERSION,
        "kind": CLUSTER_KIND,
        "metadata": {"name": name, "uid": uid},
        "status": status,
    }))
}

/// Whether a status holds all that is wanted, and no other gateway. Additions of other managers do not matter.
pub(super) fn is_there(found: &Value, wanted: &Value) -> bool {
    let (Some(found), Some(wanted)) = (found.as_object(), wanted.as_object()) else { return false };
    let ours = ["observedGeneration", "contentHash", "names", "moreGateways"];
    if ours.iter().any(|field| found.get(*field) != wanted.get(*field)) {
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

#[cfg(test)]
mod tests {

    use super::*;

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
    }
}

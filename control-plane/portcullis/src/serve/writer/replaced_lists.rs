//! Lists of a status that others write, too: those that were read, and those in their place.
//!
//! A list is replaced as a whole, so that an entry which came after it was read would be lost. The patch says what was read. The
//! object's version would say more: an author who edits labels or the spec all the time would keep every status from being written.

use kube::api::DynamicObject;
use portcullis_sources::StoredStatus;
use serde_json::{Map, Value, json};

use super::go_strings;

/// The longest JSON patch. It has each list twice, and the API server reads 3 MiB of a request.
const MAX_PATCH: usize = 2 * 1024 * 1024;

/// The lists of a status that are to be replaced.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReplacedLists {
    /// `metadata.uid`: another object may have the name by now.
    uid: String,
    /// Whether the object had a status.
    has_status: bool,
    lists: Vec<ReplacedList>,
}

#[derive(Clone, Debug, PartialEq)]
struct ReplacedList {
    /// The name of the field.
    field: String,
    /// None if it was absent.
    read: Option<Value>,
    wanted: Value,
}

impl ReplacedLists {
    /// The lists of a wanted status that are others than the stored ones. None of an object without a UID.
    pub(super) fn of(stored: &StoredStatus, wanted: Value) -> Option<Self> {
        let Value::Object(wanted) = wanted else { return None };
        let replaced = |(field, wanted): (String, Value)| {
            let read = stored.status.get(&field);
            (read != Some(&wanted)).then(|| ReplacedList { read: read.cloned(), field, wanted })
        };
        Some(Self {
            uid: stored.uid.clone()?,
            has_status: !stored.status.is_null(),
            lists: wanted.into_iter().filter_map(replaced).collect(),
        })
    }

    /// Whether the stored lists are the wanted ones.
    pub(super) fn are_there(&self) -> bool {
        self.lists.is_empty()
    }

    /// The JSON patch, which the API server refuses if one of these lists is another one than the one that was read, or if it is another
    /// object. None if it is too long.
    pub(super) fn json_patch(&self) -> Option<Vec<u8>> {
        let operation = |op: &str, path: &str, value: &Value| json!({"op": op, "path": path, "value": value});
        let mut operations = vec![operation("test", "/metadata/uid", &json!(self.uid))];
        if self.has_status {
            for list in &self.lists {
                let path = format!("/status/{}", list.field);
                // The API server takes null for a field that is absent. RFC 6902 has no test for that.
                operations.push(operation("test", &path, list.read.as_ref().unwrap_or(&Value::Null)));
                operations.push(operation("add", &path, &list.wanted));
            }
        } else {
            operations.push(operation("test", "/status", &Value::Null));
            operations.push(operation("add", "/status", &self.wanted()));
        }
        go_strings::text(&operations).ok().filter(|patch| patch.len() <= MAX_PATCH)
    }

    /// Whether an object is the one that was read, with the same lists.
    pub(super) fn are_those_of(&self, object: &DynamicObject) -> bool {
        let stored = |list: &ReplacedList| object.data.get("status")?.get(&list.field);
        object.metadata.uid.as_ref() == Some(&self.uid)
            && self.lists.iter().all(|list| stored(list) == list.read.as_ref())
    }

    /// The merge patch of a version of the object, which the API server refuses for any other.
    pub(super) fn merge_patch(&self, version: &str) -> Value {
        json!({"metadata": {"uid": self.uid, "resourceVersion": version}, "status": self.wanted()})
    }

    fn wanted(&self) -> Value {
        let wanted: Map<String, Value> =
            self.lists.iter().map(|list| (list.field.clone(), list.wanted.clone())).collect();
        Value::Object(wanted)
    }
}

#[cfg(test)]
mod tests;

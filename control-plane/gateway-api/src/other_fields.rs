use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Fields that a type does not have, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OtherFields(BTreeMap<String, Value>);

impl OtherFields {
    /// The paths of the fields that are set, below the path of their object.
    pub fn paths<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = String> + 'a {
        let is_set = |value: &Value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        };
        self.0.iter().filter(move |(_, value)| is_set(value)).map(move |(name, _)| format!("{parent}.{name}"))
    }

    /// Whether no field is set.
    pub fn is_empty(&self) -> bool {
        self.paths("").next().is_none()
    }
}

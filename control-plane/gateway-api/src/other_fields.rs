use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Fields that a type does not have, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OtherFields(BTreeMap<String, Value>);

impl OtherFields {
    /// The paths of the fields that are set, below the path of their object. An empty object is one: its fields have defaults.
    pub fn paths<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = String> + 'a {
        let is_set = |value: &Value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        self.0.iter().filter(move |(_, value)| is_set(value)).map(move |(name, _)| format!("{parent}.{name}"))
    }

    /// Whether no field is set.
    pub fn is_empty(&self) -> bool {
        self.paths("").next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_with_defaults_are_set() {
        for (value, is_set) in [
            (json!(null), false),
            (json!([]), false),
            (json!({}), true),
            (json!([{}]), true),
            (json!(false), true),
            (json!(0), true),
            (json!(""), true),
        ] {
            let fields: OtherFields = serde_json::from_value(json!({"a": value})).unwrap();
            assert_eq!(!fields.is_empty(), is_set, "{value}");
            assert_eq!(fields.paths("spec").count(), usize::from(is_set), "{value}");
        }
    }
}

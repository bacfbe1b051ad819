use serde_json::Value;

/// The paths of all nulls below a value, whose own path is `path`.
pub(crate) fn null_fields(value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut below = |value: &Value, path: String| match value {
        Value::Null => found.push(path),
        other => found.extend(null_fields(other, &path)),
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(value, format!("{path}.{name}"))),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| below(value, format!("{path}[{index}]")));
        }
        _ => {}
    }
    found
}

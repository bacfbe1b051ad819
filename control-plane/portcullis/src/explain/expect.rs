use serde_json::Value;

use super::answer::Explanation;

/// The differences between the answer and the expectation, a sentence for each. Only members of `expected` are compared; null
/// and empty are the same.
pub(super) fn differences(expected: &Value, answer: &Explanation) -> Vec<String> {
    let mut found = Vec::new();
    // An answer is text, numbers and lists, which serialise.
    let got = serde_json::to_value(answer).unwrap_or_default();
    compare("", expected, &got, &mut found);
    found
}

fn compare(path: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(expected), _) if !expected.is_empty() || path.is_empty() => {
            for (key, expected) in expected {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, expected, got.get(key).unwrap_or(&Value::Null), found);
            }
        }
        _ if expected == got || (is_nothing(expected) && is_nothing(got)) => {}
        _ => found.push(format!("{path}: expected {expected}, got {got}")),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expectation_compares_only_its_own_members() {
        let answer = Explanation { id: json!("a"), error: Some("broken".to_owned()), ..Explanation::default() };
        assert_eq!(differences(&json!({"error": "broken", "dispatch": null, "refusal": {}}), &answer), [""; 0]);
        assert_eq!(
            differences(&json!({"refusal": {"code": 403}, "error": "fine"}), &answer),
            ["error: expected \"fine\", got \"broken\"", "refusal.code: expected 403, got null"]
        );
    }
}

use portcullis_core::Refusal;
use portcullis_core::request_info::RequestInfo;
use serde::Serialize;
use serde_json::Value;

/// The gateway's treatment of a request. A part that does not apply is null.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    pub(super) id: Value,
    pub(super) request_info: Option<RequestInfoAnswer>,
    pub(super) credential: Option<CredentialAnswer>,
    pub(super) dispatch: Option<DispatchAnswer>,
    pub(super) upstream_headers: Option<Vec<(String, String)>>,
    pub(super) refusal: Option<RefusalAnswer>,
    /// Why there is no answer: the call's fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// Differences between the answer and the expectation of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) differences: Option<Vec<String>>,
}

/// Kube-apiserver's reading of the request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestInfoAnswer {
    is_resource_request: bool,
    verb: String,
    api_prefix: String,
    api_group: String,
    api_version: String,
    namespace: String,
    resource: String,
    subresource: String,
    name: String,
    parts: Option<Vec<String>>,
    path: String,
    field_selector: String,
    label_selector: String,
    long_running: bool,
}

/// The bearer credential that the request presents.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CredentialAnswer {
    pub(super) outcome: &'static str,
    pub(super) source: Option<&'static str>,
    pub(super) token_sha256: Option<String>,
    pub(super) subprotocols_after_success: Option<String>,
}

/// Which policy decides.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DispatchAnswer {
    pub(super) upstream_cluster: String,
    pub(super) matched: bool,
    pub(super) policy: Option<usize>,
    pub(super) rule: Option<usize>,
    pub(super) flow_control_schema: Option<String>,
    pub(super) upstream_subset: Option<Vec<String>>,
    pub(super) strategy: Option<&'static str>,
    pub(super) trace: Vec<String>,
}

/// The gateway's own answer to the client.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RefusalAnswer {
    code: u16,
    reason: &'static str,
    message: String,
    retry_after: Option<u32>,
}

impl Explanation {
    pub(super) fn failed(error: String) -> Self {
        Explanation { error: Some(error), ..Explanation::default() }
    }
}

impl RequestInfoAnswer {
    pub(super) fn new(info: &RequestInfo<'_>, query: &[u8]) -> Self {
        let selectors = info.selectors(query);
        RequestInfoAnswer {
            is_resource_request: info.is_resource,
            verb: text(&info.verb),
            api_prefix: text(info.api_prefix),
            api_group: text(info.api_group),
            api_version: text(info.api_version),
            namespace: text(info.namespace),
            resource: text(info.resource),
            subresource: text(info.subresource),
            name: text(&info.name),
            parts: info.is_resource.then(|| info.parts().map(text).collect()),
            path: text(info.path),
            field_selector: text(&selectors.field.unwrap_or_default()),
            label_selector: text(&selectors.label.unwrap_or_default()),
            long_running: info.is_long_running(),
        }
    }
}

impl RefusalAnswer {
    pub(super) fn new(refusal: &Refusal) -> Self {
        RefusalAnswer {
            code: refusal.code,
            reason: refusal.reason,
            message: refusal.message.to_string(),
            retry_after: refusal.retry_after,
        }
    }
}

/// JSON holds text only: other bytes are shown as U+FFFD.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

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
    use super::*;
    use serde_json::json;

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

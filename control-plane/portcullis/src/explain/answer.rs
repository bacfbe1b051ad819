use portcullis_core::Refusal;
use portcullis_core::fair::Flow;
use portcullis_core::request_info::RequestInfo;
use serde::Serialize;
use serde_json::Value;

use super::attached::PolicyAnswer;
use super::local_token::LocalTokenAnswer;
use super::served_settings::InstanceAnswer;

/// The gateway's treatment of a request. A part that does not apply is null.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    pub(crate) id: Value,
    pub(crate) request_info: Option<RequestInfoAnswer>,
    pub(crate) credential: Option<CredentialAnswer>,
    /// How the keys of issuers read the token; left out where the cluster has no issuers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) local_token: Option<LocalTokenAnswer>,
    pub(crate) dispatch: Option<DispatchAnswer>,
    /// The instance to which the cluster belongs, and by whose settings it is judged; left out without instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<InstanceAnswer>,
    /// Policies that are attached to the cluster; left out without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) policies: Vec<PolicyAnswer>,
    pub(crate) upstream_headers: Option<Vec<(String, String)>>,
    pub(crate) refusal: Option<RefusalAnswer>,
    /// The reason for which nothing is judged; left out where requests are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passed_on: Option<&'static str>,
    /// The answer if the shadow decided; left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shadow: Option<ShadowAnswer>,
    /// Why there is no answer: the call's fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Differences between the answer and the expectation of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) differences: Option<Vec<String>>,
}

/// The part of the answer that another decision changes.
#[derive(Debug, Serialize)]
pub(crate) struct ShadowAnswer {
    pub(crate) dispatch: Option<DispatchAnswer>,
    pub(crate) refusal: Option<RefusalAnswer>,
}

/// Kube-apiserver's reading of the request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestInfoAnswer {
    pub(crate) is_resource_request: bool,
    pub(crate) verb: String,
    api_prefix: String,
    pub(crate) api_group: String,
    pub(crate) api_version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) name: String,
    parts: Option<Vec<String>>,
    pub(crate) path: String,
    field_selector: String,
    label_selector: String,
    pub(crate) long_running: bool,
}

/// The bearer credential that the request presents.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CredentialAnswer {
    pub(crate) outcome: &'static str,
    pub(crate) source: Option<&'static str>,
    pub(crate) token_sha256: Option<String>,
    pub(crate) subprotocols_after_success: Option<String>,
}

/// Which policy decides.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DispatchAnswer {
    pub(crate) upstream_cluster: String,
    pub(crate) matched: bool,
    pub(crate) policy: Option<usize>,
    pub(crate) rule: Option<usize>,
    /// The object that the policy is of; left out if it is the cluster's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decided_by: Option<String>,
    pub(crate) flow_control_schema: Option<String>,
    /// Of a schema that is a fair queue.
    pub(crate) flow: Option<FlowAnswer>,
    pub(crate) upstream_subset: Option<Vec<String>>,
    pub(crate) strategy: Option<&'static str>,
    pub(crate) trace: Vec<String>,
}

/// The flow of the request in a fair queue.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FlowAnswer {
    /// Empty for requests that belong to no flow of their own.
    pub(crate) name: String,
    /// 0 for a request that needs no seat and never waits.
    pub(crate) seats: u32,
    /// The share of the flow; null where the request needs no seat.
    pub(crate) weight: Option<u32>,
}

impl From<Flow> for FlowAnswer {
    fn from(flow: Flow) -> Self {
        let (seats, weight) = flow.seats.map_or((0, None), |(seats, weight)| (seats, Some(weight)));
        Self { name: text(&flow.name), seats, weight }
    }
}

/// The gateway's own answer to the client.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusalAnswer {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    retry_after: Option<u32>,
}

impl Explanation {
    pub(crate) fn failed(error: String) -> Self {
        Explanation { error: Some(error), ..Explanation::default() }
    }
}

impl RequestInfoAnswer {
    pub(crate) fn new(info: &RequestInfo<'_>, query: &[u8]) -> Self {
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
    pub(crate) fn new(refusal: &Refusal) -> Self {
        RefusalAnswer {
            code: refusal.code,
            reason: refusal.reason,
            message: refusal.message.to_string(),
            retry_after: refusal.retry_after,
        }
    }
}

/// JSON holds text only: other bytes are shown as U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The differences between the answer and the expectation, a sentence for each. Only members of `expected` are compared; null
/// and empty are the same.
pub(crate) fn differences(expected: &Value, answer: &Explanation) -> Vec<String> {
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
        _ if expected == got || (is_empty_value(expected) && is_empty_value(got)) => {}
        _ => found.push(format!("{path}: expected {expected}, got {got}")),
    }
}

fn is_empty_value(value: &Value) -> bool {
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

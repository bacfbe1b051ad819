use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ReviewResult;
use crate::identity::UserInfo;
use crate::resource_attributes::{AccessAttributes, ResourceAttributes};

pub(super) const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

pub(super) fn request_body(user: &UserInfo, attributes: &AccessAttributes) -> String {
    let (member, attributes) = match attributes {
        AccessAttributes::Resource(attributes) => ("resourceAttributes", Value::from(resource_members(attributes))),
        AccessAttributes::Path { verb, path } => ("nonResourceAttributes", json!({"verb": verb, "path": path})),
    };
    let extra: BTreeMap<&str, &Vec<String>> =
        user.extra.iter().map(|extra| (extra.key.as_str(), &extra.values)).collect();
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": extra,
            (member): attributes,
        },
    })
    .to_string()
}

fn resource_members(attributes: &ResourceAttributes) -> Map<String, Value> {
    let mut resource = Map::new();
    let mut set = |key: &str, value: &str| {
        if !value.is_empty() {
            resource.insert(key.to_owned(), Value::from(value));
        }
    };
    set("verb", &attributes.verb);
    set("group", &attributes.group);
    set("version", &attributes.version);
    set("resource", &attributes.resource);
    set("subresource", &attributes.subresource);
    set("namespace", &attributes.namespace);
    set("name", &attributes.name);
    resource
}

#[derive(Deserialize)]
struct Answer {
    kind: String,
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    allowed: bool,
    #[serde(default)]
    denied: bool,
}

pub(super) fn parse_response(body: &[u8]) -> ReviewResult {
    match serde_json::from_slice::<Answer>(body) {
        Ok(Answer { kind, status }) if kind == "SubjectAccessReview" => {
            if status.allowed && !status.denied {
                ReviewResult::Allowed
            } else {
                ReviewResult::Denied
            }
        }
        _ => ReviewResult::Failed,
    }
}

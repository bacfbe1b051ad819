use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ReviewResult;
use crate::identity::UserInfo;
use crate::resource_attributes::{AccessAttributes, ResourceAttributes};
use crate::user_digest::{UserDigest, push_text};

pub(super) const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The question without what its JSON says around it: equal ones are of equal bodies. Writing the body costs more than the rest of a
/// request, and most answers are known.
pub(super) fn question(user: &UserDigest, attributes: &AccessAttributes<'_>) -> Vec<u8> {
    let mut question = Vec::with_capacity(256);
    question.extend_from_slice(user.bytes());
    let mut add = |kind, texts: &[&str]| {
        question.push(kind);
        texts.iter().for_each(|text| push_text(&mut question, text));
    };
    match attributes {
        AccessAttributes::Resource(attributes) => {
            let ResourceAttributes { verb, group, version, resource, subresource, namespace, name } = &**attributes;
            add(b'r', &[verb, group, version, resource, subresource, namespace, name]);
        }
        AccessAttributes::Path { verb, path } => add(b'p', &[verb, path]),
    }
    question
}

pub(super) fn request_body(user: &UserInfo, attributes: &AccessAttributes<'_>) -> String {
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::identity::Extra;

    fn text() -> impl Strategy<Value = String> {
        "[ab]{0,2}"
    }

    fn users() -> impl Strategy<Value = UserInfo> {
        let texts = || proptest::collection::vec(text(), 0..3);
        // JSON has each key once, in order.
        let extra = proptest::option::of((text(), texts()).prop_map(|(key, values)| Extra { key, values }));
        let all = (text(), text(), texts(), extra);
        all.prop_map(|(name, uid, groups, extra)| UserInfo { name, uid, groups, extra: extra.into_iter().collect() })
    }

    fn attributes() -> impl Strategy<Value = AccessAttributes<'static>> {
        let texts = [(); 7].map(|()| text());
        let resource = texts.prop_map(|[verb, group, version, resource, subresource, namespace, name]| {
            let [verb, group, version, resource] = [verb, group, version, resource].map(Cow::Owned);
            let part = ResourceAttributes { verb, group, version, resource, subresource, namespace, name };
            AccessAttributes::Resource(Cow::Owned(part))
        });
        let path = (text(), text()).prop_map(|(verb, path)| AccessAttributes::Path { verb, path });
        prop_oneof![resource, path]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]
        /// An answer counts for what the server was asked, and for nothing else.
        #[test]
        fn questions_are_equal_if_their_bodies_are(
            (one, other) in (users(), users()),
            (this, that) in (attributes(), attributes()),
        ) {
            for (user, attributes) in [(&one, &that), (&other, &this), (&other, &that)] {
                let name = |user, attributes| question(&UserDigest::of(user), attributes);
                let are_equal = name(&one, &this) == name(user, attributes);
                prop_assert_eq!(are_equal, request_body(&one, &this) == request_body(user, attributes));
            }
        }
    }

    /// The same letters in the same order, with other borders between them.
    #[test]
    fn text_that_moves_to_another_attribute_is_another_question() {
        let user = UserDigest::of(&UserInfo::default());
        let of = |texts: [&'static str; 7]| {
            let [verb, group, version, resource, subresource, namespace, name] = texts;
            let [verb, group, version, resource] = [verb, group, version, resource].map(Cow::Borrowed);
            let [subresource, namespace, name] = [subresource, namespace, name].map(str::to_owned);
            let part = ResourceAttributes { verb, group, version, resource, subresource, namespace, name };
            question(&user, &AccessAttributes::from(&part))
        };
        let path = |verb: &str, path: &str| {
            question(&user, &AccessAttributes::Path { verb: verb.to_owned(), path: path.to_owned() })
        };
        let questions = [
            of(["ab", "", "", "", "", "", ""]),
            of(["a", "b", "", "", "", "", ""]),
            of(["a", "", "b", "", "", "", ""]),
            of(["a", "", "", "b", "", "", ""]),
            of(["a", "", "", "", "b", "", ""]),
            of(["a", "", "", "", "", "b", ""]),
            of(["a", "", "", "", "", "", "b"]),
            of(["", "", "", "", "", "", "ab"]),
            path("ab", ""),
            path("a", "b"),
            path("", "ab"),
        ];
        for (index, question) in questions.iter().enumerate() {
            assert!(!questions.iter().skip(index + 1).any(|later| later == question), "{index}");
        }
    }
}

//! Just enough of Kubernetes' protobuf to understand kubectl, whose typed clients send nothing else.
//!
//! Field numbers are those of the `generated.proto` files of k8s.io/api and k8s.io/apimachinery. Only the kinds listed
//! here are read; of their fields, those that the stub uses.

use serde_json::{Map, Value, json};

/// The content type of such bodies.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The prefix of such bodies.
const MAGIC: &[u8] = b"k8s\0";

enum Shape {
    Text,
    TextMap,
    Message(&'static [Field]),
}

type Field = (u64, &'static str, Shape);

const METADATA: &[Field] = &[
    (1, "name", Shape::Text),
    (2, "generateName", Shape::Text),
    (3, "namespace", Shape::Text),
    (11, "labels", Shape::TextMap),
    (12, "annotations", Shape::TextMap),
];
const RESOURCE_ATTRIBUTES: &[Field] = &[
    (1, "namespace", Shape::Text),
    (2, "verb", Shape::Text),
    (3, "group", Shape::Text),
    (4, "version", Shape::Text),
    (5, "resource", Shape::Text),
    (6, "subresource", Shape::Text),
    (7, "name", Shape::Text),
];
const PATH_ATTRIBUTES: &[Field] = &[(1, "path", Shape::Text), (2, "verb", Shape::Text)];
const ACCESS: &[Field] = &[
    (1, "resourceAttributes", Shape::Message(RESOURCE_ATTRIBUTES)),
    (2, "nonResourceAttributes", Shape::Message(PATH_ATTRIBUTES)),
];
const ONLY_METADATA: &[Field] = &[(1, "metadata", Shape::Message(METADATA))];
const CONFIG_MAP: &[Field] = &[(1, "metadata", Shape::Message(METADATA)), (2, "data", Shape::TextMap)];
const ACCESS_REVIEW: &[Field] = &[(1, "metadata", Shape::Message(METADATA)), (2, "spec", Shape::Message(ACCESS))];
/// The envelope `runtime.Unknown`.
const TYPE: &[Field] = &[(1, "apiVersion", Shape::Text), (2, "kind", Shape::Text)];

/// A body as JSON; `None` if it is not of a kind that is known here.
pub(crate) fn to_json(body: &[u8]) -> Option<Value> {
    let envelope = fields(body.strip_prefix(MAGIC)?)?;
    let part = |number: u64| envelope.iter().find(|(found, _)| *found == number).map(|(_, bytes)| *bytes);
    let mut object = message(part(1)?, TYPE)?;
    let table = match object.get("kind")?.as_str()? {
        "ConfigMap" => CONFIG_MAP,
        "SelfSubjectAccessReview" => ACCESS_REVIEW,
        "Namespace" | "SelfSubjectReview" => ONLY_METADATA,
        "DeleteOptions" => &[],
        _ => return None,
    };
    object.extend(message(part(2).unwrap_or_default(), table)?);
    Some(Value::Object(object))
}

fn message(bytes: &[u8], table: &[Field]) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    for (number, content) in fields(bytes)? {
        let Some((_, name, shape)) = table.iter().find(|(known, _, _)| *known == number) else { continue };
        let name = (*name).to_owned();
        match shape {
            Shape::Text => drop(out.insert(name, text(content))),
            Shape::Message(inner) => drop(out.insert(name, Value::Object(message(content, inner)?))),
            Shape::TextMap => {
                // A map is a repeated message of key (1) and value (2).
                let entry = message(content, &[(1, "key", Shape::Text), (2, "value", Shape::Text)])?;
                let key = entry.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
                let value = entry.get("value").cloned().unwrap_or_else(|| json!(""));
                out.entry(name).or_insert_with(|| json!({})).as_object_mut()?.insert(key, value);
            }
        }
    }
    Some(out)
}

fn text(bytes: &[u8]) -> Value {
    json!(String::from_utf8_lossy(bytes))
}

/// The length-delimited fields of a message in order; numbers are skipped.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (tag, rest) = varint(bytes)?;
        bytes = match tag & 7 {
            0 => varint(rest)?.1,
            1 => rest.get(8..)?,
            2 => {
                let (length, rest) = varint(rest)?;
                let (content, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                out.push((tag >> 3, content));
                rest
            }
            5 => rest.get(4..)?,
            _ => return None,
        };
    }
    Some(out)
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
    let (used, rest) = bytes.split_at_checked(end + 1)?;
    let value = used.iter().rev().fold(0_u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::to_json;
    use serde_json::json;

    #[test]
    fn config_map_is_read() {
        let object = b"\x0a\x04\x0a\x02cm\x12\x06\x0a\x01a\x12\x01b\x20\x01";
        let body = [b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x10".as_slice(), object].concat();
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "b"}});
        assert_eq!(to_json(&body), Some(expected));
        for end in 0..body.len() {
            // Half a body is refused or has less in it, and never harms.
            let _ = to_json(&body[..end]);
        }
        assert_eq!(to_json(b"k8s\0\x0a\x05\x12\x03Pod"), None);
    }
}

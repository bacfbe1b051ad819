//! Policies of a document as a text: as values they take four times the memory, and a control plane keeps the documents of
//! thousands of objects to compare them with later ones. The text is a member of the document's status, with a name that each
//! process draws: no source can bring a text that would be read.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::drawn_name::drawn_name;

/// The member of `status`.
static MEMBER: LazyLock<String> = LazyLock::new(|| drawn_name("policies"));
/// The field of `spec`.
const FIELD: &str = "dispatchPolicies";

/// Puts the policies of a document into a text that only [`crate::parse_cluster`] and [`crate::cluster_mistakes`] of this process
/// read. Equal documents stay equal.
pub fn pack_policies(document: &mut Value) {
    let Some(fields) = document.as_object_mut() else { return };
    if fields.get("status").is_some_and(|status| !status.is_object()) {
        return;
    }
    let Some(policies) = spec(fields).and_then(|spec| spec.remove(FIELD)) else { return };
    let mut text = policies.to_string();
    // It has grown by doubling, and is kept.
    text.shrink_to_fit();
    let text = Value::String(text);
    let status = fields.entry("status").or_insert_with(|| Value::Object(Map::new()));
    if let Some(status) = status.as_object_mut() {
        status.insert(MEMBER.clone(), text);
    }
}

/// The document with its policies in their place.
pub(crate) fn unpacked(document: &Value) -> Cow<'_, Value> {
    if document.get("status").and_then(|status| status.get(MEMBER.as_str())).is_none() {
        return Cow::Borrowed(document);
    }
    let mut document = document.clone();
    let packed = take_packed(&mut document);
    // Lists can be nested so deeply that they are written and not read again: a value of the wrong type is refused, where none
    // would be no policies.
    let policies = packed.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    if let Some(spec) = document.as_object_mut().and_then(spec) {
        spec.insert(FIELD.to_owned(), policies.unwrap_or(Value::Bool(false)));
    }
    Cow::Owned(document)
}

fn spec(fields: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    fields.get_mut("spec").and_then(Value::as_object_mut)
}

/// A status that has nothing else goes, too.
fn take_packed(document: &mut Value) -> Option<Value> {
    let fields = document.as_object_mut()?;
    let status = fields.get_mut("status")?.as_object_mut()?;
    let packed = status.remove(MEMBER.as_str())?;
    if status.is_empty() {
        fields.remove("status");
    }
    Some(packed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{cluster_mistakes, parse_cluster};

    fn document(policies: Value, status: Option<Value>) -> Value {
        let mut document = json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a.test"},
            "spec": {"servers": [{"endpoint": "https://10.0.0.1"}], "dispatchPolicies": policies},
        });
        if let (Some(status), Some(fields)) = (status, document.as_object_mut()) {
            fields.insert("status".to_owned(), status);
        }
        document
    }

    #[test]
    fn packed_document_is_read_as_the_document() {
        let good = json!([{"rules": [{"verbs": ["get", "ä\"\n"], "nonResourceURLs": ["/"]}]}]);
        for (policies, status) in [
            (good.clone(), None),
            (good.clone(), Some(json!({"names": ["a.test"]}))),
            (good, Some(json!("no object"))),
            (json!([]), None),
            (json!(null), None),
            (json!([{"rules": [{"verb": ["get"]}]}, 5]), None),
            (json!("text"), None),
        ] {
            let written = document(policies, status);
            let mut packed = written.clone();
            pack_policies(&mut packed);
            assert_eq!(*unpacked(&packed), written);
            assert_eq!(cluster_mistakes(&packed), cluster_mistakes(&written));
            assert_eq!(parse_cluster(&packed).is_ok(), parse_cluster(&written).is_ok());
            assert_eq!(
                packed.get("status").is_some_and(Value::is_object),
                packed.pointer("/spec/dispatchPolicies").is_none()
            );
        }
    }

    #[test]
    fn text_that_a_source_brings_is_not_read() {
        let mut brought = document(json!([]), Some(json!({"packedPolicies": "[{\"rules\": []}]"})));
        brought["spec"].as_object_mut().unwrap().remove(FIELD);
        let written = brought.clone();
        pack_policies(&mut brought);
        assert_eq!(brought, written);
        assert_eq!(*unpacked(&brought), written);
        assert!(parse_cluster(&brought).unwrap().spec.dispatch_policies.is_empty());
    }

    #[test]
    fn policies_that_cannot_be_read_again_are_refused() {
        assert!(parse_cluster(&document(json!([]), None)).is_ok());
        let nested = (0..130).fold(json!([]), |inner, _| json!([inner]));
        let mut packed = document(nested, None);
        pack_policies(&mut packed);
        assert!(parse_cluster(&packed).is_err());
        assert!(!cluster_mistakes(&packed).is_empty());
    }
}

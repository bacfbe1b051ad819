//! Policies of a document as a text: as values they take four times the memory, and a control plane keeps the documents of
//! thousands of objects to compare them with later ones. The text is a member of the document's status that no source may bring, as
//! discovered servers are.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The member of `status`.
const MEMBER: &str = "packedPolicies";
/// The field of `spec`.
const FIELD: &str = "dispatchPolicies";

/// Puts the policies of a document into a text that only [`crate::parse_cluster`] and [`crate::cluster_mistakes`] read, in the place
/// of any text that it brings. Equal documents stay equal.
pub fn pack_policies(document: &mut Value) {
    drop_packed(document);
    let Some(fields) = document.as_object_mut() else { return };
    if fields.get("status").is_some_and(|status| !status.is_object()) {
        return;
    }
    let Some(policies) = spec(fields).and_then(|spec| spec.remove(FIELD)) else { return };
    let text = Value::String(policies.to_string());
    let status = fields.entry("status").or_insert_with(|| Value::Object(Map::new()));
    if let Some(status) = status.as_object_mut() {
        status.insert(MEMBER.to_owned(), text);
    }
}

/// Takes out the text that a document brings: no other program packs.
pub fn drop_packed(document: &mut Value) {
    take_packed(document);
}

/// The document with its policies in their place.
pub(crate) fn unpacked(document: &Value) -> Cow<'_, Value> {
    if document.get("status").and_then(|status| status.get(MEMBER)).is_none() {
        return Cow::Borrowed(document);
    }
    let mut document = document.clone();
    let packed = take_packed(&mut document);
    // Only texts of JSON are packed.
    let policies = packed.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    if let (Some(policies), Some(fields)) = (policies, document.as_object_mut())
        && let Some(spec) = spec(fields)
    {
        spec.insert(FIELD.to_owned(), policies);
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
    let packed = status.remove(MEMBER)?;
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
        let forged = json!({"packedPolicies": "[]"});
        let mut brought = document(json!([{"rules": []}]), Some(forged.clone()));
        pack_policies(&mut brought);
        assert_eq!(*unpacked(&brought), document(json!([{"rules": []}]), None));
        let mut without = document(json!([]), Some(forged));
        without["spec"].as_object_mut().unwrap().remove(FIELD);
        pack_policies(&mut without);
        assert!(without.get("status").is_none() && unpacked(&without)["spec"].get(FIELD).is_none());
    }
}

//! The content behind references: another one behind the same reference is a change, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use portcullis_api::{ReferencedData, SecretBytes, SecretData, content_of_references, resolve, without_references};
use portcullis_sources::{Input, InputError, ObjectSet, Root, read_references, read_secrets};
use serde_json::Value;

use super::fields::ChangedField;
use crate::onboard::secret_data;

/// A set whose references are replaced by what they refer to, as far as that is at hand. Holds keys.
pub(super) fn with_content(
    set: &ObjectSet,
    paths: &[impl AsRef<Path>],
    root: Option<&Path>,
) -> Result<ObjectSet, InputError> {
    let mut resolved = set.clone();
    if let Some(root) = root {
        read_references(&mut resolved, &Root::new(root));
    }
    let inputs: Vec<Input> = paths.iter().map(|path| Input::Path(path.as_ref().to_owned())).collect();
    let secrets = read_secrets(&inputs)?;
    let secrets = ReferencedData::secrets(by_name(&secrets));
    for document in &mut resolved.clusters {
        let of_files = resolve(document, &resolved.referenced_data).document;
        *document = resolve(&of_files, &secrets).document;
    }
    Ok(resolved)
}

/// Secrets by name. A reference names no namespace: of two with one name neither is taken.
fn by_name(secrets: &[Value]) -> BTreeMap<String, SecretData> {
    let mut named: BTreeMap<String, Option<SecretData>> = BTreeMap::new();
    for secret in secrets {
        let Some(name) = secret.pointer("/metadata/name").and_then(Value::as_str) else { continue };
        let data = if named.contains_key(name) { None } else { Some(written_data(secret)) };
        named.insert(name.to_owned(), data);
    }
    named.into_iter().filter_map(|(name, data)| Some((name, data?))).collect()
}

/// The data of a Secret as kube-apiserver stores it: `stringData` counts over `data`.
fn written_data(secret: &Value) -> SecretData {
    let mut written = secret_data(secret);
    let texts = secret.get("stringData").and_then(Value::as_object).into_iter().flatten();
    let texts =
        texts.filter_map(|(key, text)| Some((key.clone(), SecretBytes::new(text.as_str()?.as_bytes().to_vec()))));
    written.data.extend(texts);
    written
}

/// Whether the settings of a set by [`with_content`] have a reference whose content is not at hand: a file without a root, or a Secret.
pub(super) fn has_unknown_settings(resolved: &ObjectSet) -> bool {
    let of_instances = resolved.instance_settings.iter().map(AsRef::as_ref);
    resolved.settings.iter().take(1).chain(of_instances).any(|settings| without_references(settings).0 != *settings)
}

/// References that are the same in both objects and lead to other content, and those whose content is not at hand.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ContentChanges {
    pub(super) changed: Vec<ChangedField>,
    pub(super) unknown: Vec<&'static str>,
}

/// Compares the content of two objects' references. `written` are the objects, `resolved` the same by [`with_content`].
pub(super) fn content_changes(written: [&Arc<Value>; 2], resolved: [&Arc<Value>; 2]) -> ContentChanges {
    let mut found = ContentChanges::default();
    for (path, fields) in content_of_references() {
        let pointer = format!("/{}", path.replace('.', "/"));
        let [old, new] = written.map(|document| document.pointer(&pointer).filter(|reference| !reference.is_null()));
        let (Some(old), Some(new)) = (old, new) else { continue };
        if old != new {
            continue;
        }
        // A reference that is resolved is not in the document any more.
        if resolved.iter().any(|document| document.pointer(&pointer).is_some_and(|left| !left.is_null())) {
            found.unknown.push(path);
            continue;
        }
        let content = |document: &Value| -> Vec<Option<Value>> {
            fields.iter().map(|field| document.pointer(field).cloned()).collect()
        };
        if content(resolved[0]) != content(resolved[1]) {
            found.changed.push(ChangedField { path: format!("{path} (content)"), then: None, now: None });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_read_as_they_are_stored_and_two_of_a_name_not() {
        let secret = |name: &str, namespace: &str| {
            json!({"metadata": {"name": name, "namespace": namespace},
                "data": {"token": "b2xk", "other": "b2xk"}, "stringData": {"token": "new"}})
        };
        let found = by_name(&[secret("a", "x"), secret("b", "x"), secret("b", "y"), secret("b", "z")]);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a"]);
        let bytes = |text: &str| SecretBytes::new(text.as_bytes().to_vec());
        let expected = [("other", bytes("old")), ("token", bytes("new"))].map(|(key, value)| (key.to_owned(), value));
        assert_eq!(found["a"].data, BTreeMap::from(expected));
    }

    #[test]
    fn settings_with_a_reference_are_not_compared_whole() {
        let of = |certificate: Value| ObjectSet {
            settings: vec![json!({"metadata": {"name": "a"}, "spec": {"defaultCertificate": certificate}})],
            ..ObjectSet::default()
        };
        let file = json!({"file": {"certificate": "tls.crt", "privateKey": "tls.key"}});
        assert!(has_unknown_settings(&of(file)));
        assert!(!has_unknown_settings(&of(json!({"certData": "eA==", "keyData": "eA=="}))));
        assert!(!has_unknown_settings(&ObjectSet::default()));
    }

    #[test]
    fn other_content_behind_the_same_reference_is_a_change() {
        let object = |key: &str| {
            json!({"metadata": {"name": "a"}, "spec": {"portcullis": {"references": {
                "token": {"secret": {"name": "t"}}, "client": {"secret": {"name": "c"}},
                "clientCA": {"secret": {"name": "a", "key": key}}}}}})
        };
        let resolved = |token: &str| {
            json!({"metadata": {"name": "a"}, "spec": {"clientConfig": {"bearerToken": token, "certData": "c", "keyData": "k"},
                "portcullis": {"references": {"clientCA": {"secret": {"name": "a"}}}}}})
        };
        let arc = |value: Value| Arc::new(value);
        let compare = |keys: [&str; 2], tokens: [&str; 2]| {
            let [one, two] = keys.map(|key| arc(object(key)));
            let [three, four] = tokens.map(|token| arc(resolved(token)));
            let found = content_changes([&one, &two], [&three, &four]);
            (found.changed.iter().map(|field| field.path.clone()).collect::<Vec<_>>(), found.unknown)
        };
        let (token, ca) =
            ("spec.portcullis.references.token (content)".to_owned(), "spec.portcullis.references.clientCA");
        assert_eq!(compare(["k", "k"], ["x", "x"]), (vec![], vec![ca]));
        assert_eq!(compare(["k", "k"], ["x", "y"]), (vec![token.clone()], vec![ca]));
        assert_eq!(compare(["k", "l"], ["x", "y"]), (vec![token], vec![]), "another reference is a field that differs");
    }
}

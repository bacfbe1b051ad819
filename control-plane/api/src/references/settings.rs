use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::field::{Reference, UNKNOWN_AUTHORITY};
use super::shape::shape_error;
use super::shape::{NO_FILE, filled};
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::referenced_data::ReferencedData;
use crate::secret::{PublicBytes, SecretBytes};
use crate::types::{Certificate, PairInFiles};

/// A field of `GatewaySettings` that may refer to files in place of its content.
struct Place {
    pointer: &'static str,
    /// The content's fields, in the order of the files.
    fields: &'static [&'static str],
    /// The files that `file` names; none if it has another form.
    files: fn(&Value) -> Option<Vec<String>>,
}

const CERTIFICATE: Place = Place {
    pointer: "/spec/defaultCertificate",
    fields: &["certData", "keyData"],
    files: |file| crate::parse::parse_part(file).map(|pair: PairInFiles| vec![pair.certificate, pair.private_key]),
};

const CLIENT_CA: Place = authority("/spec/defaultClientCA");
const COLLECTOR_CA: Place = authority("/spec/tracing/ca");

/// Every place.
const PLACES: [&Place; 3] = [&CERTIFICATE, &CLIENT_CA, &COLLECTOR_CA];

const fn authority(pointer: &'static str) -> Place {
    Place { pointer, fields: &["data"], files: |file| Some(vec![file.as_str()?.to_owned()]) }
}

impl Place {
    /// The paths of the files; none if there is no reference or a wrong one.
    fn referred(&self, document: &Value) -> Option<Vec<String>> {
        let file = document.pointer(self.pointer)?.get("file").filter(|file| !file.is_null())?;
        (self.files)(file).filter(|paths| shape_error(&reference(paths)).is_none())
    }

    /// Replaces the reference by the files' contents. A reference that is wrong or cannot be resolved stays.
    fn resolve(&self, document: &mut Value, files: &BTreeMap<String, Option<SecretBytes>>) {
        let Some(paths) = self.referred(document) else { return };
        let content = |path: &String| {
            filled(files.get(path).and_then(Option::as_ref)).map(|bytes| STANDARD.encode(bytes.expose()))
        };
        let Some(contents) = paths.iter().map(content).collect::<Option<Vec<_>>>() else { return };
        self.put(document, contents);
    }

    fn put(&self, document: &mut Value, contents: Vec<String>) {
        let Some(object) = document.pointer_mut(self.pointer).and_then(Value::as_object_mut) else { return };
        // Content beside a reference is an error that the check reports.
        if object.len() == 1 {
            object.remove("file");
            let contents = contents.into_iter().map(Value::String);
            object.extend(self.fields.iter().map(|field| (*field).to_owned()).zip(contents));
        }
    }
}

/// Replaces the references of a `GatewaySettings` document by what they refer to. One that cannot be resolved stays, and
/// [`crate::check_settings`] refuses it.
pub fn resolve_settings(document: &mut Value, referenced_data: &ReferencedData) {
    let ReferencedData::Files(files) = referenced_data else { return };
    for place in PLACES {
        place.resolve(document, files);
    }
}

/// The same document where the files are not known: without its default certificate, and with a certificate of an unknown key
/// as each CA, wherever one of them is a reference. The second part is whether a default certificate was left
/// out.
pub fn without_references(document: &Value) -> (Value, bool) {
    let mut other = document.clone();
    let has_certificate = CERTIFICATE.referred(document).is_some();
    if has_certificate && let Some(spec) = other.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.remove("defaultCertificate");
    }
    for place in [&CLIENT_CA, &COLLECTOR_CA].into_iter().filter(|place| place.referred(document).is_some()) {
        place.put(&mut other, vec![STANDARD.encode(UNKNOWN_AUTHORITY)]);
    }
    (other, has_certificate)
}

/// The paths of the files that `GatewaySettings` refer to, as far as they are well-formed.
pub(super) fn files(document: &Value) -> BTreeSet<String> {
    PLACES.into_iter().filter_map(|place| place.referred(document)).flatten().collect()
}

/// The problem of a certificate that is still a reference when the settings are checked.
pub(crate) fn unresolved_certificate(certificate: &Certificate) -> Option<Problem> {
    let pair = certificate.file.as_ref()?;
    let is_inline = !certificate.cert_data.is_empty() || !certificate.key_data.is_empty();
    let inline = "spec.defaultCertificate.certData and spec.defaultCertificate.keyData";
    let paths = [pair.certificate.clone(), pair.private_key.clone()];
    Some(unresolved("spec.defaultCertificate.file", &paths, is_inline.then_some(inline)))
}

/// The problem of CAs at `path` that are still a reference when the settings are checked.
pub(crate) fn unresolved_authority(path: &str, data: &PublicBytes, file: Option<&String>) -> Option<Problem> {
    let paths = [file?.clone()];
    let inline = format!("{path}.data");
    Some(unresolved(&format!("{path}.file"), &paths, (!data.is_empty()).then_some(&*inline)))
}

fn unresolved(path: &str, files: &[String], inline: Option<&str>) -> Problem {
    match (inline, shape_error(&reference(files))) {
        (Some(inline), _) => Problem::new(path, format!("excludes {inline}: remove one of the two")),
        (None, Some(shape_error)) => Problem::new(path, shape_error),
        (None, None) => Problem::coded(ProblemCode::Unresolved, path, NO_FILE).hint("serve with --references-root DIR"),
    }
}

fn reference(files: &[String]) -> Reference<'_> {
    Reference { secret: None, files: Some(files.iter().map(String::as_str).collect()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::check_settings;
    use crate::parse::parse_settings;

    fn settings(certificate: Value) -> Value {
        json!({
            "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
            "spec": {"defaultCertificate": certificate},
        })
    }

    fn problems(document: &Value) -> String {
        match check_settings(&parse_settings(document).unwrap()).outcome {
            Ok(_) => String::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        }
    }

    #[test]
    fn default_certificate_may_stand_in_files() {
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        let bytes = |text: &str| Some(SecretBytes::new(text.as_bytes().to_vec()));
        let files = [("tls.crt", bytes(&cert.pem())), ("tls.key", bytes(&key.serialize_pem())), ("none", None)];
        let referenced_data =
            ReferencedData::Files(files.map(|(path, bytes)| (path.to_owned(), bytes)).into_iter().collect());
        let file = |certificate: &str, key: &str| json!({"file": {"certificate": certificate, "privateKey": key}});
        let mut beside = file("tls.crt", "tls.key");
        beside["certData"] = json!("eA==");
        for (certificate, wanted) in [
            (file("tls.crt", "tls.key"), ""),
            (file("tls.crt", "none"), "spec.defaultCertificate.file: there is no file at this path"),
            (file("tls.crt", "unread"), "spec.defaultCertificate.file: there is no file at this path"),
            (file("tls.crt", "../tls.key"), "spec.defaultCertificate.file: a file's path must not hold .."),
            (file("tls.crt", ""), "spec.defaultCertificate.file: a file needs a path"),
            (file("tls.key", "tls.key"), "spec.defaultCertificate: holds no PEM certificate"),
            (beside, "spec.defaultCertificate.file: excludes spec.defaultCertificate.certData"),
        ] {
            let mut document = settings(certificate.clone());
            assert!(wanted.is_empty() || !problems(&document).is_empty());
            resolve_settings(&mut document, &referenced_data);
            let text = problems(&document);
            assert!(text.starts_with(wanted) && text.is_empty() == wanted.is_empty(), "{certificate}: {text}");
        }
        let mut document = settings(file("tls.crt", "tls.key"));
        resolve_settings(&mut document, &ReferencedData::Secrets(BTreeMap::new()));
        assert!(problems(&document).contains("--references-root"));
        assert_eq!(crate::referenced_files(&document), ["tls.crt", "tls.key"].map(str::to_owned).into());
        let (other, had_certificate) = without_references(&document);
        assert_eq!((problems(&other), had_certificate), (String::new(), true));
        let inline = settings(json!({"certData": "eA=="}));
        assert_eq!(without_references(&inline), (inline, false));
    }

    #[test]
    fn default_client_ca_is_read_from_data_or_a_file() {
        let bytes = |text: &str| Some(SecretBytes::new(text.as_bytes().to_vec()));
        let files = [("ca.crt", bytes(UNKNOWN_AUTHORITY)), ("empty", bytes(" ")), ("none", None)];
        let referenced_data =
            ReferencedData::Files(files.map(|(path, bytes)| (path.to_owned(), bytes)).into_iter().collect());
        let with = |authority: &Value| {
            let mut document = settings(Value::Null);
            document["spec"] = json!({"defaultClientCA": authority});
            document
        };
        for (authority, wanted) in [
            (json!({"file": "ca.crt"}), ""),
            (json!({"data": STANDARD.encode(UNKNOWN_AUTHORITY)}), ""),
            (json!({"file": "none"}), "spec.defaultClientCA.file: there is no file at this path"),
            (json!({"file": "empty"}), "spec.defaultClientCA.file: there is no file at this path"),
            (json!({"file": "../ca.crt"}), "spec.defaultClientCA.file: a file's path must not hold .."),
            (
                json!({"file": "ca.crt", "data": "eA=="}),
                "spec.defaultClientCA.file: excludes spec.defaultClientCA.data",
            ),
            (json!({"data": "eA=="}), "spec.defaultClientCA.data: holds no PEM certificate"),
            (json!({}), "spec.defaultClientCA.data: holds no PEM certificate"),
        ] {
            let mut document = with(&authority);
            resolve_settings(&mut document, &referenced_data);
            let text = problems(&document);
            assert!(text.starts_with(wanted) && text.is_empty() == wanted.is_empty(), "{authority}: {text}");
        }
        let document = with(&json!({"file": "ca.crt"}));
        assert_eq!(crate::referenced_files(&document), ["ca.crt"].map(str::to_owned).into());
        assert!(problems(&document).contains("--references-root"));
        let (other, had_certificate) = without_references(&document);
        assert_eq!((problems(&other), had_certificate), (String::new(), false));
    }
}

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::resolve::{NO_FILE, filled};
use super::shape::mistake;
use super::slot::Reference;
use crate::types::PairInFiles;
use crate::{Certificate, Code, Materials, Problem};

/// Where the reference stands in `GatewaySettings`, and what it replaces.
const PATH: &str = "spec.defaultCertificate.file";
const POINTER: &str = "/spec/defaultCertificate";

/// Replaces the reference of a `GatewaySettings` document by what it refers to. One that cannot be resolved stays, and
/// [`crate::check_settings`] refuses it.
pub fn resolve_settings(document: &mut Value, materials: &Materials) {
    let (Some(pair), Materials::Files(files)) = (file_of(document), materials) else { return };
    if mistake(&reference(&pair)).is_some() {
        return;
    }
    let content =
        |path: &str| filled(files.get(path).and_then(Option::as_ref)).map(|bytes| STANDARD.encode(bytes.expose()));
    let (Some(certificate), Some(key)) = (content(&pair.certificate), content(&pair.key)) else { return };
    let Some(fields) = document.pointer_mut(POINTER).and_then(Value::as_object_mut) else { return };
    // What stands beside it is a mistake, which the check tells.
    if fields.len() == 1 {
        fields.remove("file");
        fields.extend([("certData".to_owned(), certificate.into()), ("keyData".to_owned(), key.into())]);
    }
}

/// The same document with nothing in the reference's place, where nobody can tell what it refers to; `None` if it has no
/// reference, or a wrong one.
pub fn without_reference(document: &Value) -> Option<Value> {
    if files(document).is_empty() {
        return None;
    }
    let mut document = document.clone();
    document.pointer_mut("/spec")?.as_object_mut()?.remove("defaultCertificate");
    Some(document)
}

/// The paths of the files that `GatewaySettings` refer to, as far as they are well-formed.
pub(super) fn files(document: &Value) -> BTreeSet<String> {
    let sound = file_of(document).filter(|pair| mistake(&reference(pair)).is_none());
    sound.map(|pair| [pair.certificate, pair.key].into()).unwrap_or_default()
}

/// What is wrong with a certificate that is still referred to when the settings are checked.
pub(crate) fn unresolved(certificate: &Certificate) -> Option<Problem> {
    let pair = certificate.file.as_ref()?;
    Some(if !certificate.cert_data.is_empty() || !certificate.key_data.is_empty() {
        let path = "spec.defaultCertificate";
        Problem::new(PATH, format!("excludes {path}.certData and {path}.keyData: remove one of the two"))
    } else {
        match mistake(&reference(pair)) {
            Some(mistake) => Problem::new(PATH, mistake),
            None => Problem::coded(Code::Unresolved, PATH, NO_FILE).hint("serve with --references-root DIR"),
        }
    })
}

fn file_of(document: &Value) -> Option<PairInFiles> {
    let written = document.pointer(POINTER)?.get("file").filter(|written| !written.is_null())?;
    crate::parse::parse_part(written)
}

fn reference(pair: &PairInFiles) -> Reference<'_> {
    Reference { secret: None, files: Some(vec![&pair.certificate, &pair.key]) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::{SecretBytes, check_settings, parse_settings};

    fn settings(certificate: Value) -> Value {
        json!({
            "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
            "spec": {"defaultCertificate": certificate},
        })
    }

    fn told(document: &Value) -> String {
        match check_settings(&parse_settings(document).unwrap()).outcome {
            Ok(_) => String::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        }
    }

    #[test]
    fn the_default_certificate_may_stand_in_files() {
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        let bytes = |text: &str| Some(SecretBytes::new(text.as_bytes().to_vec()));
        let files = [("tls.crt", bytes(&cert.pem())), ("tls.key", bytes(&key.serialize_pem())), ("none", None)];
        let materials = Materials::Files(files.map(|(path, bytes)| (path.to_owned(), bytes)).into_iter().collect());
        let file = |certificate: &str, key: &str| json!({"file": {"certificate": certificate, "key": key}});
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
            assert!(wanted.is_empty() || !told(&document).is_empty());
            resolve_settings(&mut document, &materials);
            let told = told(&document);
            assert!(told.starts_with(wanted) && told.is_empty() == wanted.is_empty(), "{certificate}: {told}");
        }
        let mut document = settings(file("tls.crt", "tls.key"));
        resolve_settings(&mut document, &Materials::Secrets(BTreeMap::new()));
        assert!(told(&document).contains("--references-root"));
        assert_eq!(crate::referenced_files(&document), ["tls.crt", "tls.key"].map(str::to_owned).into());
        assert_eq!(without_reference(&document).map(|document| told(&document)), Some(String::new()));
        assert_eq!(without_reference(&settings(json!({"certData": "eA=="}))), None);
    }
}

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::field::{Reference, UNKNOWN_AUTHORITY, authority_in_secret, pair_in_secret};
use super::shape::shape_error;
use super::shape::{NO_FILE, filled};
use crate::parse::parse_part;
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::referenced_data::ReferencedData;
use crate::secret::{PublicBytes, SecretBytes};
use crate::types::{AuthorityInSecret, Certificate, PairInFiles, PairInSecret};

/// The message for a Secret that does not exist, for one of another owner, and for one without the keys: the difference is not
/// revealed.
const NO_SECRET: &str = "there is no Secret of this name with these keys in the control plane's namespace that is labelled for \
                         these GatewaySettings (portcullis.dev/gateway-settings)";

/// The name of a Secret, and keys in it.
type SecretKeys = (String, Vec<String>);

/// A field of `GatewaySettings` that may refer to a Secret or to files in place of its content.
struct Place {
    pointer: &'static str,
    /// The content's fields, in the order of the reference's places.
    fields: &'static [&'static str],
    /// The files that `file` names; none if it has another form.
    files: fn(&Value) -> Option<Vec<String>>,
    /// The name and the keys that `secret` names; none if it has another form.
    secret: fn(&Value) -> Option<SecretKeys>,
}

const CERTIFICATE: Place = Place {
    pointer: "/spec/defaultCertificate",
    fields: &["certData", "keyData"],
    files: |file| parse_part(file).map(|pair: PairInFiles| vec![pair.certificate, pair.private_key]),
    secret: |secret| parse_part(secret).map(|secret: PairInSecret| owned(pair_in_secret(&secret))),
};

const CLIENT_CA: Place = authority("/spec/defaultClientCA");
const COLLECTOR_CA: Place = authority("/spec/tracing/ca");

/// Every place.
const PLACES: [&Place; 3] = [&CERTIFICATE, &CLIENT_CA, &COLLECTOR_CA];

const fn authority(pointer: &'static str) -> Place {
    Place {
        pointer,
        fields: &["data"],
        files: |file| Some(vec![file.as_str()?.to_owned()]),
        secret: |secret| parse_part(secret).map(|secret: AuthorityInSecret| owned(authority_in_secret(&secret))),
    }
}

fn owned((name, keys): (&str, Vec<&str>)) -> SecretKeys {
    (name.to_owned(), keys.into_iter().map(str::to_owned).collect())
}

/// The target of a reference in settings.
enum Target {
    /// The Secret's name, and under which keys.
    Secret(String, Vec<String>),
    /// The files' paths.
    Files(Vec<String>),
}

impl Place {
    /// The target; none if there is no reference or a wrong one.
    fn referred(&self, document: &Value) -> Option<Target> {
        let object = document.pointer(self.pointer)?;
        let part = |field: &str| object.get(field).filter(|part| !part.is_null());
        let target = match (part("secret"), part("file")) {
            (Some(secret), None) => (self.secret)(secret).map(|(name, keys)| Target::Secret(name, keys))?,
            (None, Some(file)) => Target::Files((self.files)(file)?),
            _ => return None,
        };
        shape_error(&target.reference()).is_none().then_some(target)
    }

    /// Replaces the reference by the content of its target. One that is wrong or cannot be resolved stays.
    fn resolve(&self, document: &mut Value, referenced_data: &ReferencedData) {
        let Some(target) = self.referred(document) else { return };
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let Some(found) = target.found(name, referenced_data) else { return };
        let contents = found.into_iter().map(|bytes| STANDARD.encode(bytes.expose())).collect();
        self.put(document, contents);
    }

    fn put(&self, document: &mut Value, contents: Vec<String>) {
        let Some(object) = document.pointer_mut(self.pointer).and_then(Value::as_object_mut) else { return };
        // Content beside a reference is an error that the check reports.
        if object.len() == 1 {
            object.clear();
            let contents = contents.into_iter().map(Value::String);
            object.extend(self.fields.iter().map(|field| (*field).to_owned()).zip(contents));
        }
    }
}

impl Target {
    fn reference(&self) -> Reference<'_> {
        match self {
            Target::Secret(name, keys) => {
                Reference { secret: Some((name, keys.iter().map(String::as_str).collect())), files: None }
            }
            Target::Files(paths) => Reference { secret: None, files: Some(paths.iter().map(String::as_str).collect()) },
        }
    }

    /// The content, for the settings of a name. A Secret has to be theirs.
    fn found<'d>(&self, settings: &str, referenced_data: &'d ReferencedData) -> Option<Vec<&'d SecretBytes>> {
        match (self, referenced_data) {
            (Target::Files(paths), ReferencedData::Files(files)) => {
                paths.iter().map(|path| filled(files.get(path).and_then(Option::as_ref))).collect()
            }
            (Target::Secret(name, keys), ReferencedData::Secrets(secrets)) => {
                let secret = secrets.get(name).filter(|secret| secret.owners.contains(settings))?;
                keys.iter().map(|key| filled(secret.data.get(key))).collect()
            }
            _ => None,
        }
    }
}

/// Replaces the references of a `GatewaySettings` document by what they refer to. One that cannot be resolved stays, and
/// [`crate::check_settings`] refuses it.
pub fn resolve_settings(document: &mut Value, referenced_data: &ReferencedData) {
    for place in PLACES {
        place.resolve(document, referenced_data);
    }
}

/// The same document where Secrets and files are not known: without its default certificate, and with a certificate of an unknown
/// key as each CA, wherever one of them is a reference. The second part is whether a default certificate was left
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
    let paths = |place: &Place| match place.referred(document) {
        Some(Target::Files(paths)) => paths,
        _ => Vec::new(),
    };
    PLACES.into_iter().flat_map(paths).collect()
}

/// The problem of a certificate that is still a reference when the settings are checked.
pub(crate) fn unresolved_certificate(certificate: &Certificate) -> Option<Problem> {
    let is_inline = !certificate.cert_data.is_empty() || !certificate.key_data.is_empty();
    let inline = "spec.defaultCertificate.certData and spec.defaultCertificate.keyData";
    let files = certificate.file.as_ref().map(|pair| vec![pair.certificate.as_str(), pair.private_key.as_str()]);
    let reference = Reference { secret: certificate.secret.as_ref().map(pair_in_secret), files };
    unresolved("spec.defaultCertificate", &reference, is_inline.then_some(inline))
}

/// The problem of CAs at `path` that are still a reference, to a file or to a Secret, when the settings are checked.
pub(crate) fn unresolved_authority(
    path: &str,
    data: &PublicBytes,
    (file, secret): (Option<&str>, Option<&AuthorityInSecret>),
) -> Option<Problem> {
    let inline = format!("{path}.data");
    let reference = Reference { secret: secret.map(authority_in_secret), files: file.map(|file| vec![file]) };
    unresolved(path, &reference, (!data.is_empty()).then_some(&*inline))
}

fn unresolved(path: &str, reference: &Reference<'_>, inline: Option<&str>) -> Option<Problem> {
    let is_secret = reference.secret.is_some();
    if !is_secret && reference.files.is_none() {
        return None;
    }
    let path = format!("{path}.{}", if is_secret { "secret" } else { "file" });
    Some(match (inline, shape_error(reference)) {
        (Some(inline), _) => Problem::new(path, format!("excludes {inline}: remove one of the two")),
        (None, Some(shape_error)) => Problem::new(path, shape_error),
        (None, None) if is_secret => Problem::coded(ProblemCode::Unresolved, path, NO_SECRET)
            .hint("settings of a file refer to files; those in Kubernetes, to Secrets"),
        (None, None) => Problem::coded(ProblemCode::Unresolved, path, NO_FILE)
            .hint("serve with --references-root DIR; settings in Kubernetes refer to Secrets"),
    })
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
        let referenced_data = ReferencedData::files(files.map(|(path, bytes)| (path.to_owned(), bytes)));
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
        resolve_settings(&mut document, &ReferencedData::secrets([]));
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
        let referenced_data = ReferencedData::files(files.map(|(path, bytes)| (path.to_owned(), bytes)));
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

    #[test]
    fn secrets_are_those_that_are_labelled_for_the_settings() {
        let secret = |owner: &str, data: &[(&str, &str)]| crate::SecretData {
            owners: [owner.to_owned()].into(),
            data: data
                .iter()
                .map(|(key, text)| ((*key).to_owned(), SecretBytes::new(text.as_bytes().to_vec())))
                .collect(),
        };
        let cas: [(&str, &str); 3] = [("ca.crt", UNKNOWN_AUTHORITY), ("other", UNKNOWN_AUTHORITY), ("empty", " ")];
        let secrets = [("own", secret("x", &cas)), ("foreign", secret("y", &cas))];
        let referenced_data = ReferencedData::secrets(secrets.map(|(name, secret)| (name.to_owned(), secret)));
        let none = "spec.defaultClientCA.secret: there is no Secret of this name";
        for (authority, wanted) in [
            (json!({"secret": {"name": "own"}}), ""),
            (json!({"secret": {"name": "own", "key": "other"}}), ""),
            (json!({"secret": {"name": "own", "key": "empty"}}), none),
            (json!({"secret": {"name": "own", "key": "absent"}}), none),
            (json!({"secret": {"name": "foreign"}}), none),
            (json!({"secret": {"name": "absent"}}), none),
            (json!({"secret": {"name": ""}}), "spec.defaultClientCA.secret: secret.name must be the name of a Secret"),
            (json!({"secret": {"name": "own"}, "file": "ca.crt"}), "spec.defaultClientCA.secret: exactly one of"),
            (json!({"secret": {"name": "own"}, "data": "eA=="}), "spec.defaultClientCA.secret: excludes"),
            // An object in Kubernetes reads no file of the control plane's machine.
            (json!({"file": "ca.crt"}), "spec.defaultClientCA.file: there is no file at this path"),
        ] {
            let mut document = settings(Value::Null);
            document["spec"] = json!({"defaultClientCA": authority});
            resolve_settings(&mut document, &referenced_data);
            let text = problems(&document);
            assert!(text.starts_with(wanted) && text.is_empty() == wanted.is_empty(), "{authority}: {text}");
        }
        let mut document = settings(json!({"secret": {"name": "own"}}));
        assert!(without_references(&document).1);
        resolve_settings(&mut document, &ReferencedData::files([]));
        assert!(problems(&document).contains("spec.defaultCertificate.secret: there is no Secret"));
    }
}

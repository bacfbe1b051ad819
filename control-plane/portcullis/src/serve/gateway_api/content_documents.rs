//! Documents of Secrets and `ConfigMaps` as certificates of Gateways. An error has no word of a value.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{
    KeyPair, PublicBytes, SECRET_LABEL, SecretBytes, SecretData, UPSTREAM_SECRET_LABEL, UPSTREAM_SHARED_ANNOTATION,
    read_client_bundle, read_key_pair,
};
use portcullis_attach::ContentKind;
use serde::Deserialize;

/// The most bytes that one holds: certificates of a few host names with their chains take less than 10 KiB.
const MAX_BYTES: usize = 64 * 1024;
/// The type of Secrets with a certificate and its key.
const TLS_SECRET: &str = "kubernetes.io/tls";

/// Certificates that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Certificates {
    /// Of listeners.
    Serving(Arc<KeyPair>),
    /// Of CAs.
    Authorities(Arc<PublicBytes>),
    /// Whatever a `KubernetesUpstream` may refer to.
    OfUpstreams(Arc<SecretData>),
}

/// The part of a Secret that is looked at. An error of its values does not quote them.
#[derive(Deserialize)]
struct SecretDocument {
    #[serde(default)]
    metadata: SecretMetadata,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    data: BTreeMap<String, SecretBytes>,
}

#[derive(Default, Deserialize)]
struct SecretMetadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The part of a `ConfigMap` that is looked at.
#[derive(Deserialize)]
struct ConfigMapDocument {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// Reads an object's document, and says why it cannot be used without a word of it.
pub(super) fn read_document(kind: ContentKind, document: &str) -> Result<Certificates, String> {
    let unreadable = || "its document cannot be read".to_owned();
    match kind {
        ContentKind::Secret => {
            let secret: SecretDocument = serde_json::from_str(document).map_err(|_| unreadable())?;
            serving(&secret)
        }
        ContentKind::UpstreamSecret => {
            let secret: SecretDocument = serde_json::from_str(document).map_err(|_| unreadable())?;
            of_upstreams(secret)
        }
        ContentKind::ConfigMap => {
            let map: ConfigMapDocument = serde_json::from_str(document).map_err(|_| unreadable())?;
            bounded(map.data.values().map(String::len).sum())?;
            let pem = map.data.get("ca.crt").ok_or("it has no ca.crt")?;
            let bundle = read_client_bundle(&PublicBytes::new(pem.clone().into_bytes()));
            let bundle = bundle.map_err(|error| format!("ca.crt {error}"))?;
            Ok(Certificates::Authorities(Arc::new(bundle)))
        }
    }
}

fn serving(secret: &SecretDocument) -> Result<Certificates, String> {
    if secret.kind != TLS_SECRET {
        return Err(format!("it is not of type {TLS_SECRET}"));
    }
    refuse_credential(secret)?;
    if secret.metadata.labels.contains_key(UPSTREAM_SECRET_LABEL) {
        return Err(format!("its label {UPSTREAM_SECRET_LABEL} makes it a credential for servers"));
    }
    bounded(secret.data.values().map(|value| value.expose().len()).sum())?;
    let value = |key: &str| {
        let value = secret.data.get(key).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("it has no {key}"))
    };
    let chain = PublicBytes::new(value("tls.crt")?.expose().to_vec());
    let pair = read_key_pair(&chain, value("tls.key")?).map_err(|error| format!("tls.crt and tls.key: {error}"))?;
    Ok(Certificates::Serving(Arc::new(pair)))
}

/// Nothing is kept of a Secret that is for no upstream: its author need not know of references to it.
fn of_upstreams(secret: SecretDocument) -> Result<Certificates, String> {
    refuse_credential(&secret)?;
    bounded(secret.data.values().map(|value| value.expose().len()).sum())?;
    let SecretMetadata { labels, annotations } = &secret.metadata;
    let label =
        labels.get(UPSTREAM_SECRET_LABEL).ok_or_else(|| format!("the Secret has no label {UPSTREAM_SECRET_LABEL}"))?;
    let owners = SecretData::owners_of(label, annotations.get(UPSTREAM_SHARED_ANNOTATION).map(String::as_str));
    Ok(Certificates::OfUpstreams(Arc::new(SecretData { owners, data: secret.data })))
}

/// Its key may be the one that servers of an `UpstreamCluster` believe every user of.
fn refuse_credential(secret: &SecretDocument) -> Result<(), String> {
    match secret.metadata.labels.contains_key(SECRET_LABEL) {
        true => Err(format!("its label {SECRET_LABEL} makes it a credential for servers")),
        false => Ok(()),
    }
}

fn bounded(bytes: usize) -> Result<(), String> {
    if bytes <= MAX_BYTES { Ok(()) } else { Err("it holds more than 64 KiB".to_owned()) }
}

#[cfg(test)]
pub(super) use tests::made_secret;

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    use super::*;

    fn made() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn secret(kind: &str, data: &[(&str, &str)]) -> String {
        let data: BTreeMap<&str, String> = data.iter().map(|(key, value)| (*key, STANDARD.encode(value))).collect();
        json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "data": data}).to_string()
    }

    /// The document of a good Secret.
    pub(in super::super) fn made_secret() -> String {
        let (cert, key) = made();
        secret(TLS_SECRET, &[("tls.crt", &cert), ("tls.key", &key)])
    }

    #[test]
    fn secret_holds_a_certificate_and_its_key() {
        let ((cert, key), (_, other)) = (made(), made());
        let pair = [("tls.crt", cert.as_str()), ("tls.key", key.as_str())];
        let large = "x".repeat(MAX_BYTES);
        for (case, document, expected) in [
            ("a good one", secret(TLS_SECRET, &pair), None),
            ("another type", secret("Opaque", &pair), Some("it is not of type kubernetes.io/tls")),
            ("no key", secret(TLS_SECRET, &pair[..1]), Some("it has no tls.key")),
            ("an empty key", secret(TLS_SECRET, &[pair[0], ("tls.key", "")]), Some("it has no tls.key")),
            ("another key", secret(TLS_SECRET, &[pair[0], ("tls.key", &other)]), Some("does not belong to the key")),
            ("no PEM", secret(TLS_SECRET, &[("tls.crt", "Hello world"), ("tls.key", "Hello world")]), Some("no PEM")),
            ("too large", secret(TLS_SECRET, &[pair[0], pair[1], ("more", &large)]), Some("64 KiB")),
            ("no data", json!({"type": TLS_SECRET}).to_string(), Some("it has no tls.crt")),
            (
                "no base64",
                json!({"type": TLS_SECRET, "data": {"tls.key": "SECRET!"}}).to_string(),
                Some("cannot be read"),
            ),
            ("no document", "SECRET".to_owned(), Some("its document cannot be read")),
        ] {
            let read = read_document(ContentKind::Secret, &document);
            match (&read, expected) {
                (Ok(Certificates::Serving(_)), None) => {}
                (Err(why), Some(expected)) => {
                    assert!(why.contains(expected) && !why.contains("SECRET"), "{case}: {why}");
                }
                _ => panic!("{case}: {read:?}"),
            }
            let shown = format!("{read:?}");
            assert!(!shown.contains("PRIVATE KEY") && !shown.contains(&key[40..60]), "{case}: {shown}");
        }
    }

    #[test]
    fn credential_for_servers_is_no_serving_certificate() {
        let mut document: Value = serde_json::from_str(&made_secret()).unwrap();
        document["metadata"] = json!({"labels": {SECRET_LABEL: "prod"}});
        let why = read_document(ContentKind::Secret, &document.to_string()).unwrap_err();
        assert!(why.contains("credential for servers"), "{why}");
        for kind in [ContentKind::Secret, ContentKind::UpstreamSecret] {
            let labels = json!({SECRET_LABEL: "prod", UPSTREAM_SECRET_LABEL: "prod"});
            document["metadata"] = json!({"labels": labels});
            assert!(
                read_document(kind, &document.to_string()).unwrap_err().contains("credential for servers"),
                "{kind:?}"
            );
        }
        document["metadata"] = json!({"labels": {UPSTREAM_SECRET_LABEL: "prod"}});
        let why = read_document(ContentKind::Secret, &document.to_string()).unwrap_err();
        assert!(why.contains("credential for servers"), "one of an upstream's: {why}");
        document["metadata"] = json!({"labels": {"app": "prod"}});
        assert!(read_document(ContentKind::Secret, &document.to_string()).is_ok());
    }

    #[test]
    fn secret_of_upstreams_is_labelled_for_them() {
        let read = |metadata: Value| {
            let data = json!({"token": STANDARD.encode("TOPSECRET")});
            read_document(ContentKind::UpstreamSecret, &json!({"metadata": metadata, "data": data}).to_string())
        };
        let owners = |metadata: Value| match read(metadata).unwrap() {
            Certificates::OfUpstreams(secret) => secret.owners.iter().cloned().collect::<Vec<_>>().join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(owners(json!({"labels": {UPSTREAM_SECRET_LABEL: "prod"}})), "prod");
        let shared =
            json!({"labels": {UPSTREAM_SECRET_LABEL: ""}, "annotations": {UPSTREAM_SHARED_ANNOTATION: "blue, green"}});
        assert_eq!(owners(shared), "blue green");
        assert!(read(json!({})).unwrap_err().contains("has no label"));
        let large = json!({"data": {"token": STANDARD.encode("x".repeat(MAX_BYTES + 1))}}).to_string();
        assert!(read_document(ContentKind::UpstreamSecret, &large).unwrap_err().contains("64 KiB"));
        assert!(!format!("{:?}", read(json!({"labels": {UPSTREAM_SECRET_LABEL: "prod"}}))).contains("TOPSECRET"));
    }

    #[test]
    fn config_map_holds_authorities() {
        let (cert, key) = made();
        let map = |data: Value| read_document(ContentKind::ConfigMap, &json!({"data": data}).to_string());
        let Ok(Certificates::Authorities(bundle)) = map(json!({"ca.crt": format!("{key}{cert}")})) else { panic!() };
        assert_eq!(String::from_utf8_lossy(bundle.as_slice()), cert.replace("\r\n", "\n"), "no key goes further");
        assert_eq!(map(json!({"other": cert})), Err("it has no ca.crt".to_owned()));
        assert_eq!(map(json!({"ca.crt": "Hello world"})), Err("ca.crt holds no PEM certificate".to_owned()));
        assert!(map(json!({"ca.crt": cert, "more": "x".repeat(MAX_BYTES)})).unwrap_err().contains("64 KiB"));
    }
}

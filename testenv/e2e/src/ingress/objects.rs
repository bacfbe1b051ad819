//! The objects of `envoy/gardener`, with a shoot's own values in the place of the example's.

use portcullis_harness::{Error, Result, project_root};
use serde_json::Value;

const FILES: [&str; 4] = ["clusters.yaml", "shoot.yaml", "termination.yaml", "apiserver-proxy.yaml"];
/// The placeholder of the bundle in the files, as text of JSON.
const BUNDLE: &str = r"-----BEGIN CERTIFICATE-----\nthe shoot's client CA bundle\n-----END CERTIFICATE-----\n";

/// Reads the objects for a shoot: `name` replaces the example's name in host names, `client_ca` is PEM.
pub(super) fn read(namespace: &str, name: &str, client_ca: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in FILES {
        let path = project_root().join("envoy/gardener").join(file);
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|source| Error::File { step: "reading", path: path.clone(), source })?;
        let text = text
            .replace("shoot--dev--prod", namespace)
            .replace("api.prod.", &format!("api.{name}."))
            .replace("api-dev--prod.", &format!("api-dev--{name}."))
            .replace(BUNDLE, &client_ca.replace('\n', r"\n"));
        let lacks = |error: serde_saphyr::Error| Error::Lacks { what: file.to_owned(), field: error.to_string() };
        objects.extend(serde_saphyr::from_multiple::<Value>(&text).map_err(lacks)?);
    }
    Ok(objects)
}

/// The objects of one kind.
pub(super) fn of_kind<'a>(objects: &'a [Value], kind: &'static str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// The entries of a list; none where there is no list.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text; empty where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

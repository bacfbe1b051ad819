use std::path::Path;
use std::process::Command;

use portcullis_harness::{deps, project_root};
use serde_json::Value;

pub(super) const NAMESPACE: &str = "portcullis";
pub(super) const CONTROL_PLANE: &str = "portcullis-control-plane";
pub(super) const GATEWAY: &str = "portcullis-gateway";
/// An overlay with Envoys of two Gateways and of an Instance.
pub(super) const ENVOYS: &str = "../../testenv/e2e/tests/kube/deploy/envoys";

/// The namespace of an installation, and the beginning of its objects' names.
#[derive(Clone)]
pub(super) struct Naming {
    pub(super) namespace: String,
    pub(super) prefix: String,
}

impl Naming {
    pub(super) fn control_plane(&self) -> String {
        format!("{}-control-plane", self.prefix)
    }

    pub(super) fn gateway(&self) -> String {
        format!("{}-gateway", self.prefix)
    }
}

/// The output of `kubectl kustomize` for a directory below deploy/kubernetes, or of `helm template`.
pub(super) struct Rendered {
    pub(super) names: Naming,
    /// As it would be applied.
    pub(super) text: String,
    pub(super) objects: Vec<Value>,
}

impl Rendered {
    /// `None`, said loudly, where kubectl is not built.
    pub(super) fn of(directory: &str) -> Option<Self> {
        Self::at(&project_root().join("deploy/kubernetes").join(directory))
    }

    /// The output for a directory.
    pub(super) fn at(directory: &Path) -> Option<Self> {
        let kubectl = deps::kube_or_skip("kustomize").unwrap()?.kubectl;
        let output = Command::new(kubectl).arg("kustomize").arg(directory).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.is_empty(), "{}: {stderr}", directory.display());
        let text = String::from_utf8(output.stdout).unwrap();
        Some(Rendered::new(text, Naming { namespace: NAMESPACE.to_owned(), prefix: NAMESPACE.to_owned() }))
    }

    pub(super) fn new(text: String, names: Naming) -> Self {
        let objects = documents(&text).into_iter().filter(|one| !one.is_null()).collect();
        Rendered { names, objects, text }
    }

    pub(super) fn get(&self, kind: &str, name: &str) -> &Value {
        let is = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
        self.objects.iter().find(is).unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    pub(super) fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |one| one["kind"] == kind)
    }

    /// Of a Deployment with one container.
    pub(super) fn container(&self, deployment: &str) -> &Value {
        let containers = self.get("Deployment", deployment)["spec"]["template"]["spec"]["containers"].as_array();
        assert_eq!(containers.map(Vec::len), Some(1), "{deployment}");
        &containers.unwrap()[0]
    }
}

/// The documents of a YAML or JSON stream.
pub(super) fn documents(text: &str) -> Vec<Value> {
    let parts = text.split("\n---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("{error}: {part}"))).collect()
}

/// The value of a container's argument `--name=value`.
pub(super) fn flag<'a>(container: &'a Value, name: &str) -> &'a str {
    let prefix = format!("--{name}=");
    let mut found = strings(&container["args"]).into_iter().filter_map(|arg| arg.strip_prefix(&prefix));
    let value = found.next().unwrap_or_else(|| panic!("no {prefix} among {}", container["args"]));
    assert!(found.next().is_none(), "{prefix} stands once");
    value
}

/// A list of texts.
pub(super) fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|one| one.as_str().unwrap()).collect()
}

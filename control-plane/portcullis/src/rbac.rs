use std::process::ExitCode;

use portcullis_filter_config::DEFAULT_EXTRAS;
use serde_json::{Value, json};

use crate::cli::Rbac;

pub(crate) fn run(arguments: &Rbac) -> ExitCode {
    // JSON is YAML, and needs no quoting of ours.
    crate::print(&format!("{:#}\n---\n{:#}\n", role(), binding(&arguments.user)))
}

const NAME: &str = "portcullis";

/// What telling the user to the upstream and reviewing credentials need, and nothing else.
fn role() -> Value {
    let extras = DEFAULT_EXTRAS.iter().map(|key| format!("userextras/{key}"));
    let told: Vec<String> = std::iter::once("uids".to_owned()).chain(extras).collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": [
            {"apiGroups": [""], "resources": ["users", "groups", "serviceaccounts"], "verbs": ["impersonate"]},
            {"apiGroups": ["authentication.k8s.io"], "resources": told, "verbs": ["impersonate"]},
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
            {"nonResourceURLs": ["/readyz"], "verbs": ["get"]},
        ],
    })
}

fn binding(user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

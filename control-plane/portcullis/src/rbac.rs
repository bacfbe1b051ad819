use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::Rbac;

pub(crate) fn run(arguments: &Rbac) -> ExitCode {
    // JSON is YAML, and needs no quoting of ours.
    crate::print(&format!("{:#}\n---\n{:#}\n", role(), binding(&arguments.user)))
}

const NAME: &str = "portcullis";

/// What impersonation needs, and nothing else. Reviews are not made yet.
fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": [
            {"apiGroups": [""], "resources": ["users", "groups", "serviceaccounts"], "verbs": ["impersonate"]},
            {
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["uids", "userextras/authentication.kubernetes.io/credential-id"],
                "verbs": ["impersonate"],
            },
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

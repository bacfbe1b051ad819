//! The resources of the stub.

use serde_json::{Value, json};

/// One served resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) short: &'static [&'static str],
}

const fn kept(
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
) -> Resource {
    Resource { group, version: "v1", plural, singular, kind, namespaced, short }
}

/// Resources whose objects are kept.
pub(crate) const KEPT: &[Resource] = &[
    kept("", "configmaps", "configmap", "ConfigMap", true, &["cm"]),
    kept("", "events", "event", "Event", true, &["ev"]),
    kept("", "namespaces", "namespace", "Namespace", false, &["ns"]),
    kept("", "nodes", "node", "Node", false, &["no"]),
    kept("", "pods", "pod", "Pod", true, &["po"]),
    kept("", "secrets", "secret", "Secret", true, &[]),
    kept("", "services", "service", "Service", true, &["svc"]),
    kept("apps", "deployments", "deployment", "Deployment", true, &["deploy"]),
    kept("coordination.k8s.io", "leases", "lease", "Lease", true, &[]),
];

/// Questions that are answered and not kept: group, plural, kind.
pub(crate) const REVIEWS: &[(&str, &str, &str)] = &[
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
];

impl Resource {
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        KEPT.iter().find(|served| served.group == group && served.version == version && served.plural == plural)
    }

    pub(crate) fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    pub(crate) fn discovery(&self) -> Value {
        json!({
            "name": self.plural, "singularName": self.singular, "namespaced": self.namespaced, "kind": self.kind,
            "shortNames": self.short,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        })
    }
}

pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

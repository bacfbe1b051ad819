/// Kubernetes' own resources, and subresources in common use. Another resource counts under the name that a dispatch policy of
/// the cluster gives it, or as `other`.
#[rustfmt::skip]
pub(crate) const BUILT_IN: [&str; 125] = [
    // core
    "bindings", "componentstatuses", "configmaps", "endpoints", "events", "limitranges", "namespaces", "namespaces/finalize",
    "namespaces/status", "nodes", "nodes/proxy", "nodes/status", "persistentvolumeclaims", "persistentvolumeclaims/status",
    "persistentvolumes", "persistentvolumes/status", "pods", "pods/attach", "pods/binding", "pods/ephemeralcontainers",
    "pods/eviction", "pods/exec", "pods/log", "pods/portforward", "pods/proxy", "pods/resize", "pods/status",
    "podtemplates", "replicationcontrollers", "replicationcontrollers/scale", "replicationcontrollers/status",
    "resourcequotas", "resourcequotas/status", "secrets", "serviceaccounts", "serviceaccounts/token", "services",
    "services/proxy", "services/status",
    // apps
    "controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale", "deployments/status",
    "replicasets", "replicasets/scale", "replicasets/status", "statefulsets", "statefulsets/scale", "statefulsets/status",
    // batch, autoscaling, policy
    "cronjobs", "cronjobs/status", "horizontalpodautoscalers", "horizontalpodautoscalers/status", "jobs", "jobs/status",
    "poddisruptionbudgets", "poddisruptionbudgets/status",
    // networking.k8s.io, discovery.k8s.io
    "endpointslices", "ingressclasses", "ingresses", "ingresses/status", "ipaddresses", "networkpolicies", "servicecidrs",
    "servicecidrs/status",
    // rbac.authorization.k8s.io
    "clusterrolebindings", "clusterroles", "rolebindings", "roles",
    // storage.k8s.io
    "csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments", "volumeattachments/status",
    "volumeattributesclasses",
    // admissionregistration.k8s.io
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "validatingadmissionpolicies/status", "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    // apiextensions.k8s.io, apiregistration.k8s.io
    "apiservices", "apiservices/status", "customresourcedefinitions", "customresourcedefinitions/status",
    // authentication.k8s.io, authorization.k8s.io
    "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews",
    "subjectaccessreviews", "tokenreviews",
    // certificates.k8s.io
    "certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status",
    "clustertrustbundles", "podcertificaterequests", "podcertificaterequests/status",
    // coordination.k8s.io, flowcontrol.apiserver.k8s.io
    "flowschemas", "flowschemas/status", "leasecandidates", "leases", "prioritylevelconfigurations",
    "prioritylevelconfigurations/status",
    // node.k8s.io, scheduling.k8s.io
    "priorityclasses", "runtimeclasses",
    // resource.k8s.io
    "deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates", "resourceslices", "workloads",
    "podgroups", "podgroups/status",
    // internal.apiserver.k8s.io, storagemigration.k8s.io
    "storageversionmigrations", "storageversionmigrations/status", "storageversions", "storageversions/status",
    // metrics.k8s.io and what else asks for logs and numbers of nodes
    "nodes/log", "nodes/metrics", "nodes/stats",
];

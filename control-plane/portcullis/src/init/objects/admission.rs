use serde_json::{Value, json};

const GROUP: &str = "admissionregistration.k8s.io/v1";

/// A policy against what would be stored, or would be deleted, and then wait for a controller forever.
struct RefusedWrites {
    name: &'static str,
    rules: Value,
    /// CEL; true for a good request.
    good: &'static str,
    message: &'static str,
    action: &'static str,
}

pub(super) fn all() -> Vec<Value> {
    policies().iter().flat_map(|policy| [definition(policy), binding(policy)]).collect()
}

fn rule(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "resources": resources, "operations": operations})
}

fn policies() -> [RefusedWrites; 7] {
    let workloads = [
        rule(
            "",
            &["pods", "replicationcontrollers", "persistentvolumes", "persistentvolumeclaims", "resourcequotas"],
            &["CREATE"],
        ),
        rule("apps", &["*"], &["CREATE"]),
        rule("batch", &["*"], &["CREATE"]),
    ];
    [
        RefusedWrites {
            name: "portcullis-keep-namespaces",
            rules: json!([rule("", &["namespaces"], &["DELETE"])]),
            good: "false",
            message: "this store deletes no namespace: without a controller manager nothing empties it, and it would stay \
                      Terminating forever; delete the objects in it, and leave it empty",
            action: "Deny",
        },
        RefusedWrites {
            name: "portcullis-delete-in-background",
            rules: json!([rule("*", &["*"], &["DELETE"])]),
            // The older form of the same option is served, too.
            good: "(!has(request.options.propagationPolicy) || request.options.propagationPolicy == 'Background') && \
                   (!has(request.options.orphanDependents) || request.options.orphanDependents == false)",
            message: "this store has no garbage collector, and the object would wait for it forever; delete with \
                      --cascade=background, and dependents by name",
            action: "Deny",
        },
        RefusedWrites {
            name: "portcullis-no-finalizers-of-the-garbage-collector",
            rules: json!([rule("*", &["*"], &["CREATE", "UPDATE"])]),
            good: "!has(object.metadata) || !has(object.metadata.finalizers) || \
                   object.metadata.finalizers.all(one, one != 'foregroundDeletion' && one != 'orphan')",
            message: "this store has no garbage collector, which removes the finalizers foregroundDeletion and orphan; leave \
                      them out",
            action: "Deny",
        },
        RefusedWrites {
            name: "portcullis-no-workloads",
            rules: json!(workloads),
            good: "false",
            message: "this store runs nothing: it has no scheduler, kubelet or controller; create the object in a cluster",
            action: "Deny",
        },
        RefusedWrites {
            name: "portcullis-no-requests-to-controllers",
            rules: json!([
                rule("certificates.k8s.io", &["certificatesigningrequests"], &["CREATE"]),
                rule("", &["secrets"], &["CREATE"]),
            ]),
            good: "has(object.type) && object.type != 'kubernetes.io/service-account-token'",
            message: "this store has no controller that signs certificates or makes tokens; a token: kubectl create token",
            action: "Deny",
        },
        RefusedWrites {
            name: "portcullis-no-aggregated-roles",
            rules: json!([rule("rbac.authorization.k8s.io", &["clusterroles"], &["CREATE", "UPDATE"])]),
            good: "!has(object.aggregationRule)",
            message: "this store has no controller that aggregates roles, and the role would stay empty; list its rules",
            action: "Deny",
        },
        RefusedWrites {
            name: "portcullis-owner-references",
            rules: json!([rule("*", &["*"], &["CREATE", "UPDATE"])]),
            good: "!has(object.metadata) || !has(object.metadata.ownerReferences) || object.metadata.ownerReferences.size() == 0",
            message: "this store has no garbage collector: the object stays when its owner is deleted",
            action: "Warn",
        },
    ]
}

fn definition(policy: &RefusedWrites) -> Value {
    json!({
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": policy.name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": policy.rules},
            // kube-apiserver itself writes roles that the controller manager would aggregate, when it starts.
            "matchConditions": [{"name": "not-itself", "expression": "request.userInfo.username != 'system:apiserver'"}],
            "validations": [{"expression": policy.good, "message": policy.message, "reason": "Forbidden"}],
        },
    })
}

fn binding(policy: &RefusedWrites) -> Value {
    json!({
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy.name},
        "spec": {"policyName": policy.name, "validationActions": [policy.action]},
    })
}

use hyper::Method;
use portcullis_api::Cluster;
use serde_json::{Value, json};

use super::questions::failed;
use super::report::{CheckFailure, CheckOutcome};
use super::session::GatewaySession;
use crate::rbac::gateway_manifests;

const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Asks for each right that `portcullis rbac` prints for the object whether the gateway's user has it.
pub(super) async fn check(session: &GatewaySession, cluster: &Cluster) -> CheckOutcome {
    let role = match gateway_manifests(std::slice::from_ref(cluster), "") {
        Ok([role, _]) => role,
        Err(error) => return CheckFailure::new(error.to_string(), "correct the object").into(),
    };
    let rights = rights_of(&role);
    let mut missing = Vec::new();
    for (name, attributes) in &rights {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": attributes,
        });
        match session.object(Method::POST, PATH, Some(&review), None).await {
            Ok(answer) if answer.pointer("/status/allowed") == Some(&Value::Bool(true)) => {}
            Ok(_) => missing.push(name.as_str()),
            Err(error) => {
                let hint =
                    "every authenticated user may ask for its own rights (system:basic-user): is the binding gone?";
                return failed(session, &error, hint);
            }
        }
    }
    if missing.is_empty() {
        return CheckOutcome::Good(format!("all {}", rights.len()));
    }
    let reason = format!("{} of {} are missing: {}", missing.len(), rights.len(), missing.join(", "));
    let hint =
        "an admin of the cluster applies what `portcullis rbac -f` prints for the object, or `portcullis onboard` does";
    CheckFailure::new(reason, hint).into()
}

/// Each right of a ClusterRole: its name, and the specification of a SelfSubjectAccessReview.
fn rights_of(role: &Value) -> Vec<(String, Value)> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let all = rule.get(field).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = Vec::new();
    for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
        for verb in texts(rule, "verbs") {
            for path in texts(rule, "nonResourceURLs") {
                rights.push((format!("{verb} {path}"), json!({"nonResourceAttributes": {"path": path, "verb": verb}})));
            }
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    let names = texts(rule, "resourceNames");
                    let names = if names.is_empty() { vec![String::new()] } else { names };
                    rights.extend(names.iter().map(|name| right_to_resource(&verb, &group, &resource, name)));
                }
            }
        }
    }
    rights
}

fn right_to_resource(verb: &str, group: &str, written: &str, name: &str) -> (String, Value) {
    let (resource, subresource) = written.split_once('/').unwrap_or((written, ""));
    let attributes =
        json!({"verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name});
    let place = if group.is_empty() { String::new() } else { format!(".{group}") };
    (format!("{verb} {written}{place}"), json!({"resourceAttributes": attributes}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_the_printed_role_are_asked_one_by_one() {
        let [role, _] = gateway_manifests(&[], "system:portcullis").unwrap();
        let rights = rights_of(&role);
        let names: Vec<&str> = rights.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "impersonate users",
            "impersonate uids.authentication.k8s.io",
            "create tokenreviews.authentication.k8s.io",
            "create subjectaccessreviews.authorization.k8s.io",
            "get /readyz",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
        let extra = rights.iter().find(|(name, _)| name.contains("userextras/")).unwrap();
        assert_eq!(extra.1["resourceAttributes"]["resource"], "userextras");
        assert_ne!(extra.1["resourceAttributes"]["subresource"], "");
    }
}

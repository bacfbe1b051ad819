//! Changes of new Gateways by the API server's own admission policies, before the control plane sees them.

use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::sources::{GatewayApiSite, NAMESPACE, SOON};

/// The suite's own annotation of Gateways that need not be programmed.
const ANNOTATION: &str = "gateway-api/skip-this-for-readiness";

/// A change of each new Gateway for which a condition holds.
pub(super) struct GatewayMutation<'a> {
    pub(super) name: &'a str,
    /// In CEL.
    pub(super) condition: &'a str,
    /// A list of JSON patches in CEL.
    pub(super) patch: &'a str,
    /// The ConfigMap that is `params` in these.
    pub(super) parameters: Option<&'a str>,
}

/// Has the suite wait for no Gateway, so that its tests of statuses run although Gateways are not programmed.
pub(super) fn wait_for_no_gateway(site: &GatewayApiSite) {
    let key = format!(r#""/metadata/annotations/" + jsonpatch.escapeKey("{ANNOTATION}")"#);
    let patch = format!(
        r#"has(object.metadata.annotations)
            ? [JSONPatch{{op: "add", path: {key}, value: "true"}}]
            : [JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"{ANNOTATION}": "true"}}}}]"#
    );
    change_new_gateways(
        site,
        &GatewayMutation { name: "no-readiness", condition: "true", patch: &patch, parameters: None },
        "any",
        |gateway| gateway["metadata"]["annotations"][ANNOTATION] == "true",
    );
}

/// Installs it, and waits until a Gateway of this name would be changed.
pub(super) fn change_new_gateways(
    site: &GatewayApiSite,
    mutation: &GatewayMutation<'_>,
    tried: &str,
    is_changed: impl Fn(&Value) -> bool,
) {
    let rule = json!({
        "apiGroups": ["gateway.networking.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["gateways"],
    });
    let mut policy = json!({
        "matchConstraints": {"resourceRules": [rule]}, "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConditions": [{"name": "wanted", "expression": mutation.condition}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": mutation.patch}}],
    });
    let mut binding = json!({"policyName": mutation.name});
    if let Some(parameters) = mutation.parameters {
        policy["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        binding["paramRef"] = json!({"name": parameters, "namespace": NAMESPACE, "parameterNotFoundAction": "Deny"});
    }
    for (kind, spec) in [("MutatingAdmissionPolicy", &policy), ("MutatingAdmissionPolicyBinding", &binding)] {
        let version = "admissionregistration.k8s.io/v1";
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": mutation.name}, "spec": spec});
        site.fixture.apply(&object.to_string());
    }
    let listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": tried, "namespace": "default"},
        "spec": {"gatewayClassName": "none", "listeners": [listener]},
    });
    let file = site.fixture.run.write(&format!("{}.json", mutation.name), gateway.to_string()).unwrap();
    wait::until_ok("the policy changes new Gateways", SOON, || {
        let create = ["create", "--dry-run=server", "-f", file.to_str().unwrap()];
        let made = site.fixture.kubectl(&create).json().map_err(|error| error.to_string())?;
        if is_changed(&made) { Ok(()) } else { Err(made.to_string()) }
    })
    .unwrap();
}

//! A change of new Gateways by the API server's own admission policies, before the control plane sees them.

use portcullis_harness::wait;
use serde_json::json;

use crate::sources::{GatewayApiSite, SOON};

/// The suite's own annotation of Gateways that need not be programmed.
const ANNOTATION: &str = "gateway-api/skip-this-for-readiness";
/// The name of the policy, and of its binding.
const NAME: &str = "no-readiness";

/// Has the suite wait for no Gateway with an HTTPS listener, which is not programmed: it would wait for all of them before each
/// test. Waits until the policy is in effect.
pub(super) fn wait_for_no_https_gateway(site: &GatewayApiSite) {
    let rule = json!({
        "apiGroups": ["gateway.networking.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["gateways"],
    });
    let key = format!(r#""/metadata/annotations/" + jsonpatch.escapeKey("{ANNOTATION}")"#);
    let patch = format!(
        r#"has(object.metadata.annotations)
            ? [JSONPatch{{op: "add", path: {key}, value: "true"}}]
            : [JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"{ANNOTATION}": "true"}}}}]"#
    );
    let has_https = r#"object.spec.listeners.exists(listener, listener.protocol == "HTTPS")"#;
    let policy = json!({
        "matchConstraints": {"resourceRules": [rule]}, "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConditions": [{"name": "https", "expression": has_https}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    });
    let binding = json!({"policyName": NAME});
    for (kind, spec) in [("MutatingAdmissionPolicy", &policy), ("MutatingAdmissionPolicyBinding", &binding)] {
        let version = "admissionregistration.k8s.io/v1";
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": NAME}, "spec": spec});
        site.fixture.apply(&object.to_string());
    }
    let tls = json!({"certificateRefs": [{"name": "none"}]});
    let listener = json!({"name": "https", "port": 443, "protocol": "HTTPS", "tls": tls});
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "any", "namespace": "default"},
        "spec": {"gatewayClassName": "none", "listeners": [listener]},
    });
    let file = site.fixture.run.write("https-gateway.json", gateway.to_string()).unwrap();
    wait::until_ok("the policy changes new Gateways", SOON, || {
        let create = ["create", "--dry-run=server", "-f", file.to_str().unwrap()];
        let made = site.fixture.kubectl(&create).json().map_err(|error| error.to_string())?;
        if made["metadata"]["annotations"][ANNOTATION] == "true" { Ok(()) } else { Err(made.to_string()) }
    })
    .unwrap();
}

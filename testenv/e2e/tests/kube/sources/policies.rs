//! Policies that attach to `UpstreamClusters`, with a real kube-apiserver as the store and as the upstream.

use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::fixture::{NAMESPACE, SourceFixture, USER, printed};
use super::gateway_api::GROUP;

const CLUSTER: &str = "a.example.com";

struct PolicySite {
    fixture: SourceFixture,
    target: TlsTarget,
}

fn denial(path: &str) -> Value {
    json!({"rules": [{"verbs": ["*"], "nonResourceURLs": [path]}], "portcullis": {"action": "Deny", "message": "by a policy"}})
}

impl PolicySite {
    fn dispatch(&self, namespace: &str, name: &str, policies: &Value) {
        let target = json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": CLUSTER});
        let spec = json!({"targetRefs": [target], "overrides": {"dispatchPolicies": policies}});
        self.apply("portcullis.dev/v1alpha1", "DispatchPolicy", (namespace, name), &spec);
    }

    fn apply(&self, version: &str, kind: &str, (namespace, name): (&str, &str), spec: &Value) {
        let metadata = json!({"name": name, "namespace": namespace});
        let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        self.fixture.apply(&object.to_string());
    }

    fn delete(&self, kind: &str, (namespace, name): (&str, &str)) {
        self.fixture.admin(&["delete", kind, name, "-n", namespace]);
    }

    /// The status of the gateway's answer.
    fn answers(&self, path: &str, expected: u16) {
        let answer = || H2Client::connect(&self.target).and_then(|client| client.get(path, &[]));
        wait::until_ok(&format!("{path} is answered {expected}"), SOON, || match answer() {
            Ok(answer) if answer.status == expected => Ok(()),
            Ok(answer) => Err(format!("{}", answer.status)),
            Err(error) => Err(error.to_string()),
        })
        .unwrap();
    }

    /// Waits for the condition `Accepted` of a policy's newest version, as `Status Reason`.
    fn accepted(&self, (namespace, name): (&str, &str), expected: &str) {
        let path = format!("/apis/portcullis.dev/v1alpha1/namespaces/{namespace}/dispatchpolicies/{name}");
        wait::until_ok(&format!("{name} is {expected}"), SOON, || {
            let found = self.fixture.kube.get(&path).unwrap();
            let condition = found["status"]["ancestors"][0]["conditions"][0].clone();
            let part = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            let is_newest = condition["observedGeneration"] == found["metadata"]["generation"];
            let said = format!("{} {}", part("status"), part("reason"));
            if is_newest && said == expected { Ok(()) } else { Err(format!("{:#}", found["status"])) }
        })
        .unwrap();
    }
}

#[test]
fn attached_policy_changes_dispatch_until_it_is_deleted() {
    let definitions = deps::definitions().map(|dir| dir.join("gateway-api"));
    let Some(definitions) = deps::or_skip("the Gateway API", definitions).unwrap() else { return };
    let Some(fixture) = SourceFixture::start("policies") else { return };
    fixture.apply(&printed(&["rbac", "--control-plane", "--namespace", NAMESPACE, "--user", USER, "--policies"]));
    fixture.apply(&printed(&["rbac", "--user", "portcullis"]));
    fixture.kubectl(&["apply", "--server-side", "-f", definitions.to_str().unwrap()]).run_ok().unwrap();
    for kind in [format!("referencegrants.{GROUP}"), "dispatchpolicies.portcullis.dev".to_owned()] {
        wait::until("the kind is served", SOON, || {
            fixture.kubectl(&["get", &kind, "-A"]).run().unwrap().success().then_some(())
        })
        .unwrap();
    }
    fixture.admin(&["create", "namespace", "team"]);
    fixture.apply(&fixture.manifest(CLUSTER).to_text());
    let side = fixture.kubernetes_side_with("plane", &["--policies"]);
    side.wait_listening(fixture.address);
    let target = TlsTarget::new(fixture.address).sni(CLUSTER).trust(&fixture.serving_ca).identity(fixture.kube.admin());
    let site = PolicySite { fixture, target };
    site.answers("/version", 200);

    // One of the control plane's own namespace is in the place of the cluster's own.
    let all = json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}]});
    let (home, younger, tenant) = ((NAMESPACE, "base"), (NAMESPACE, "younger"), ("team", "tight"));
    site.dispatch(home.0, home.1, &json!([denial("/version"), all]));
    site.answers("/version", 403);
    site.accepted(home, "True Accepted");
    let affected = || {
        site.fixture.stored(CLUSTER)["status"]
            .to_string()
            .contains("portcullis.dev/DispatchPolicyAffected")
            .then_some(())
    };
    wait::until("the cluster says that a policy affects it", SOON, affected).unwrap();
    site.dispatch(younger.0, younger.1, &json!([all]));
    site.accepted(younger, "False Conflicted");

    // One of another namespace tightens, with a grant, and never lets anything in.
    site.dispatch(tenant.0, tenant.1, &json!([denial("/healthz")]));
    site.accepted(tenant, "False RefNotPermitted");
    site.answers("/healthz", 200);
    let grant = json!({
        "from": [{"group": "portcullis.dev", "kind": "DispatchPolicy", "namespace": "team"}],
        "to": [{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": CLUSTER}],
    });
    site.apply(&format!("{GROUP}/v1"), "ReferenceGrant", (NAMESPACE, "team"), &grant);
    site.accepted(tenant, "True Accepted");
    site.answers("/healthz", 403);
    site.answers("/version", 403);
    site.dispatch(tenant.0, tenant.1, &json!([all]));
    site.accepted(tenant, "False Invalid");
    site.answers("/healthz", 200);
    site.answers("/version", 403);

    // A mistake keeps what was accepted last, and the end of the policies brings the cluster's own fields back.
    site.dispatch(home.0, home.1, &json!([{"rules": all["rules"], "upstreamSubset": ["https://192.0.2.1"]}]));
    site.accepted(home, "False Invalid");
    site.answers("/version", 403);
    site.delete("dispatchpolicies", younger);
    site.delete("dispatchpolicies", home);
    site.answers("/version", 200);
    let gone =
        || (!site.fixture.stored(CLUSTER)["status"].to_string().contains("DispatchPolicyAffected")).then_some(());
    wait::until("nothing affects the cluster", SOON, gone).unwrap();
}

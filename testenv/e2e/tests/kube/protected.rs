//! `system:masters` kept out by the gateway: what a real kube-apiserver thinks of such a certificate then.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::kube::KubeOptions;
use serde_json::{Value, json};

use crate::fixture::{Identities, KubeFixture};

#[test]
fn certificate_of_system_masters_loses_its_power_at_the_gateway() {
    for identities in Identities::ALL {
        let options = (&KubeOptions::default(), &GatewayOptions::default());
        let Some(fixture) = KubeFixture::forwarding(identities, "protected", options.0, options.1) else { return };
        let admin = || fixture.kubectl(fixture.kube.admin());
        // Without discovery before it, whose errors kubectl does not read.
        let secrets = ["get", "--raw", "/api/v1/secrets"];
        let configmaps = ["get", "--raw", "/api/v1/namespaces/default/configmaps"];
        let groups = || -> Value {
            let mut review = admin().args(["auth", "whoami"]).json().unwrap();
            review["status"]["userInfo"]["groups"].take()
        };
        assert_eq!(groups(), json!(["system:masters", "system:authenticated"]), "{identities:?}");
        admin().args(secrets).run_ok().unwrap();

        protect(&fixture, &json!({"groups": ["system:masters"]}));
        let refused = admin().args(secrets).run().unwrap();
        let words = r#"no request may act as a member of the group "system:masters""#;
        assert!(!refused.success() && refused.stderr.contains(words), "{}", refused.stderr);
        let asked = ["--as=bob", "--as-group=system:masters"];
        let refused = fixture.kubectl(&fixture.alice).args(configmaps).args(asked).run().unwrap();
        assert!(!refused.success() && refused.stderr.contains(words), "{}", refused.stderr);
        fixture.kubectl(&fixture.alice).args(configmaps).run_ok().unwrap();

        protect(&fixture, &json!({"groups": ["system:masters"], "action": "DropGroup"}));
        assert_eq!(groups(), json!(["system:authenticated"]), "{identities:?}");
        let forbidden = admin().args(secrets).run().unwrap();
        assert!(forbidden.stderr.contains("cannot list resource \"secrets\""), "{}", forbidden.stderr);
        let asked = admin().args(configmaps).args(["--as=bob"]).run().unwrap();
        assert!(asked.stderr.contains("cannot impersonate"), "{}", asked.stderr);
    }
}

/// By constrained impersonation, which is on in Kubernetes 1.36, a user who asks for a node's name gets the nodes' group. As a
/// front proxy the gateway leaves that to kube-apiserver.
#[test]
fn nodes_name_alone_gives_no_nodes_group() {
    let options = (&KubeOptions::default(), &GatewayOptions::default());
    let Some(fixture) = KubeFixture::forwarding(Identities::RequestHeader, "protected-node", options.0, options.1)
    else {
        return;
    };
    let rules = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:arbitrary-node"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["impersonate-on:arbitrary-node:create"]},
    ]);
    let kind = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "as-node"}});
    let (mut role, mut binding) = (kind("ClusterRole"), kind("ClusterRoleBinding"));
    role["rules"] = rules;
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as-node"});
    binding["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string();
    let rights = fixture.run.write("as-node.json", list).unwrap();
    fixture.admin(&["apply", "-f", rights.to_str().unwrap()]);

    let whoami = || fixture.kubectl(&fixture.bob).args(["auth", "whoami", "-o", "json", "--as=system:node:n1"]);
    let groups = whoami().json().unwrap()["status"]["userInfo"]["groups"].take();
    assert_eq!(groups, json!(["system:nodes", "system:authenticated"]));
    protect(&fixture, &json!({"groups": ["system:nodes"]}));
    let refused = whoami().run().unwrap();
    assert!(!refused.success() && refused.stderr.contains("do not have permission"), "{}", refused.stderr);
}

fn protect(fixture: &KubeFixture, spec: &Value) {
    fixture.gateway.change_settings(|settings| settings["protectedIdentities"] = spec.clone()).unwrap();
}

use std::process::Command;

use portcullis_harness::deps;

use super::walkthrough::Walkthrough;

/// A group's verb and kind in a namespace, and whether the group has the right.
const RIGHTS: [(&str, &str, &str, &str, &str); 12] = [
    ("platform", "create", "upstreamclusters.proxy.kubegateway.io", "team-a", "yes"),
    ("platform", "create", "dispatchpolicies.portcullis.dev", "portcullis", "yes"),
    ("platform", "create", "dispatchpolicies.portcullis.dev", "team-a", "no"),
    ("platform", "create", "gateways.gateway.networking.k8s.io", "infra", "no"),
    ("edge", "create", "gateways.gateway.networking.k8s.io", "infra", "yes"),
    ("edge", "create", "gateways.gateway.networking.k8s.io", "team-a", "no"),
    ("edge", "create", "upstreamclusters.proxy.kubegateway.io", "infra", "no"),
    ("edge", "get", "secrets", "infra", "no"),
    ("team-a", "create", "httproutes.gateway.networking.k8s.io", "team-a", "yes"),
    ("team-a", "create", "httproutes.gateway.networking.k8s.io", "infra", "no"),
    ("team-a", "get", "secrets", "team-a", "no"),
    ("others", "create", "httproutes.gateway.networking.k8s.io", "team-a", "no"),
];

/// docs/gateway-api.md, "Roles of people". Each write and read is tried in `kube/personas.rs`.
#[test]
fn commands_for_roles_bind_each_group_where_it_works() {
    let found = deps::definitions().map(|dir| dir.join("gateway-api"));
    let Some(definitions) = deps::or_skip("documents-roles", found).unwrap() else { return };
    let Some(mut reader) = Walkthrough::start("documents-roles") else { return };
    // Without its definition a kind is not asked for by its name.
    let own = Command::new(deps::portcullis().unwrap()).arg("crd").output().unwrap().stdout;
    std::fs::write(reader.path("own.yaml"), own).unwrap();
    for file in [definitions, reader.path("own.yaml")] {
        let file = file.to_str().unwrap();
        reader.kube.kube.admin_kubectl().unwrap().args(["apply", "--server-side", "-f", file]).run_ok().unwrap();
    }
    let established = ["wait", "--for=condition=Established", "crd", "--all"];
    reader.kube.kube.admin_kubectl().unwrap().args(established).run_ok().unwrap();
    for namespace in ["portcullis", "infra", "team-a"] {
        reader.kube.kube.admin_kubectl().unwrap().args(["create", "namespace", namespace]).run_ok().unwrap();
    }
    reader.open("docs/gateway-api.md", "### Roles of people", &[]);
    reader.run("portcullis rbac --personas");
    reader.run("kubectl create clusterrolebinding platform");
    for binding in ["policies", "gateways", "routes"] {
        reader.run(&format!("kubectl create rolebinding {binding}"));
    }
    reader.end();
    for (group, verb, kind, namespace, expected) in RIGHTS {
        let asked = ["auth", "can-i", verb, kind, "-n", namespace, "--as=anna", &format!("--as-group={group}")];
        let answer = reader.kube.kube.admin_kubectl().unwrap().args(asked).run().unwrap();
        assert_eq!(answer.stdout.trim(), expected, "{group} {verb} {kind} {namespace}: {}", answer.stderr);
    }
}

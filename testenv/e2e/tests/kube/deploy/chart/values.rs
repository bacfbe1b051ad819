//! Each value does what its comment says, and a real kube-apiserver takes the outcome.

use portcullis_harness::deps;
use serde_json::{Value, json};

use super::helm::{DEFAULT, Helm, Release};
use super::rows::{Row, rows};
use crate::deploy::apply::{Cluster, is_stored, pods_are_admitted};
use crate::deploy::printed::printed;
use crate::deploy::rendered::{Rendered, documents, flag, strings};

fn check(rendered: &Rendered, (values, made): &Row) {
    for (kind, end, path, expected) in made {
        let object = rendered.get(kind, &format!("{}{end}", rendered.names.prefix));
        assert_eq!(object.pointer(path).unwrap_or(&Value::Null), expected, "{kind} {end} {path} with {values}");
    }
}

/// Each row in a namespace of its own, by the definitions of Kubernetes, cert-manager and the Prometheus operator.
#[test]
fn chart_values_act_and_kube_apiserver_stores_every_word() {
    let Some(helm) = Helm::find("values") else { return };
    let Some(definitions) = deps::or_skip("values", deps::definitions()).unwrap() else { return };
    let Some(cluster) = Cluster::start("chart-values") else { return };
    cluster.kubectl(&["create", "--validate=strict", "-f", definitions.to_str().unwrap()]).run_ok().unwrap();
    for plural in ["certificates", "issuers", "servicemonitors", "prometheusrules"] {
        cluster.wait_kind(plural);
    }
    for (index, row) in rows().iter().enumerate() {
        let namespace = format!("row-{index}");
        let rendered = helm.render(Release { namespace: &namespace, ..DEFAULT }, &row.0);
        check(&rendered, row);
        cluster.make_namespace(&namespace);
        cluster.apply(&namespace, &rendered.text);
        is_stored(&cluster, &rendered, &namespace);
        pods_are_admitted(&cluster, &rendered);
    }
}

/// Objects that a value leaves out.
#[test]
fn chart_values_leave_objects_out() {
    let Some(helm) = Helm::find("left-out") else { return };
    let rows: [(Value, &[&str]); 5] = [
        (json!({"crds": {"install": false}}), &["CustomResourceDefinition"]),
        (json!({"rbac": {"create": false}}), &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
        (json!({"networkPolicies": {"enabled": false}}), &["NetworkPolicy"]),
        (
            json!({"controlPlane": {"podDisruptionBudget": {"enabled": false}}, "gateway": {"podDisruptionBudget": {"enabled": false}}}),
            &["PodDisruptionBudget"],
        ),
        (
            json!({"monitoring": {"enabled": true, "serviceMonitors": false, "alerts": false, "dashboard": false}}),
            &["ServiceMonitor", "PrometheusRule"],
        ),
    ];
    for (values, kinds) in rows {
        let rendered = helm.render(DEFAULT, &values);
        for kind in kinds {
            assert_eq!(rendered.all(kind).count(), 0, "{kind} with {values}");
        }
        assert_eq!(rendered.all("Deployment").count(), 2);
    }
    let rendered = helm.render(DEFAULT, &json!({"gateway": {"enabled": false}, "certManager": {"enabled": true}}));
    let is_of_gateways = |one: &&Value| one["metadata"]["name"].as_str().unwrap().contains("-gateway");
    assert_eq!(rendered.objects.iter().find(is_of_gateways), None);
    // As `helm upgrade --reuse-values` leaves the values of a release without the field.
    let rendered = helm.render(DEFAULT, &json!({"gateway": {"enabled": null}}));
    let unset = rendered.objects.iter().map(|one| one["metadata"]["name"].clone()).collect::<Vec<_>>();
    let rendered = helm.render(DEFAULT, &json!({}));
    assert_eq!(unset, rendered.objects.iter().map(|one| one["metadata"]["name"].clone()).collect::<Vec<_>>());
    let rendered = helm.render(DEFAULT, &json!({"networkPolicies": {"defaultDeny": false}}));
    assert!(rendered.all("NetworkPolicy").all(|one| one["spec"]["podSelector"] != json!({})));
}

/// Each of these namespaces, and no other one, lets the control plane read its EndpointSlices.
#[test]
fn rights_of_discovery_are_in_its_namespaces_alone() {
    let Some(helm) = Helm::find("discovery") else { return };
    let slices = |rendered: &Rendered| {
        let roles = rendered.all("Role").chain(rendered.all("ClusterRole"));
        let reading = roles.filter(|role| role["rules"].to_string().contains("endpointslices"));
        reading
            .map(|role| (role["metadata"]["namespace"].clone(), role["metadata"]["name"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(slices(&helm.render(DEFAULT, &json!({}))), []);
    let rendered = helm.render(DEFAULT, &json!({"rbac": {"discoveryNamespaces": ["tenants", "more"]}}));
    let found = slices(&rendered);
    let namespaces: Vec<&Value> = found.iter().map(|(namespace, _)| namespace).collect();
    assert_eq!(namespaces, [&json!("tenants"), &json!("more")]);
    for (namespace, name) in &found {
        let binding = rendered.all("RoleBinding").find(|one| one["metadata"]["namespace"] == *namespace).unwrap();
        assert_eq!(binding["roleRef"]["name"], *name);
        let account = &rendered
            .all("ServiceAccount")
            .find(|one| one["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-control-plane")));
        assert_eq!(binding["subjects"][0]["name"], account.unwrap()["metadata"]["name"]);
    }
}

/// Each part has its rights, and only its own, in the chart as in what the program prints.
#[test]
fn rights_of_parts_are_there_with_their_flags_alone() {
    let Some(helm) = Helm::find("parts") else { return };
    let release = Release { name: "edge", namespace: "gateways" };
    let added = |values: &Value| {
        let rendered = helm.render(release, values);
        let of_part = |one: &&Value| {
            let name = one["metadata"]["name"].as_str().unwrap_or_default();
            one["kind"].as_str().unwrap().starts_with("ClusterRole") && !name.ends_with("-control-plane")
        };
        let objects = rendered.objects.iter().filter(of_part).cloned().collect::<Vec<_>>();
        let flags = strings(&rendered.container("edge-portcullis-control-plane")["args"]).join(" ");
        (objects, ["--gateway-api", "--instances", "--policies"].map(|flag| flags.contains(flag)))
    };
    assert_eq!(added(&json!({})), (Vec::new(), [false; 3]));
    for (index, (value, part)) in
        [("gatewayAPI", "gateway-api"), ("instances", "instances"), ("policies", "policies")].iter().enumerate()
    {
        let (objects, flags) = added(&json!({(*value): {"enabled": true}}));
        let name = format!("gateways:edge-portcullis-{part}");
        assert!(objects.iter().all(|one| one["metadata"]["name"] == *name), "{objects:?}");
        let kinds: Vec<&Value> = objects.iter().map(|one| &one["kind"]).collect();
        assert_eq!(kinds, [&json!("ClusterRole"), &json!("ClusterRoleBinding")]);
        assert_eq!(objects[1]["roleRef"]["name"], *name);
        let subject =
            json!({"kind": "ServiceAccount", "name": "edge-portcullis-control-plane", "namespace": "gateways"});
        assert_eq!(objects[1]["subjects"], json!([subject]));
        let mut all = documents(&printed(&["rbac", "--control-plane", &format!("--{part}")]));
        assert_eq!(objects[0]["rules"], all.split_off(all.len() - 2)[0]["rules"], "{part}");
        assert_eq!(flags.iter().position(|flag| *flag), Some(index));
        assert_eq!(flags.iter().filter(|flag| **flag).count(), 1);
        let without = json!({(*value): {"enabled": true}, "rbac": {"create": false}});
        assert_eq!(added(&without).0, [] as [Value; 0]);
    }
}

/// Certificates, hosts, rights, selectors and alerts follow the names.
#[test]
fn names_of_namespace_and_release_are_in_everything() {
    let Some(helm) = Helm::find("names") else { return };
    let values = json!({"certManager": {"enabled": true}, "monitoring": {"enabled": true}});
    let rendered = helm.render(Release { name: "edge", namespace: "gateways" }, &values);
    let plane = rendered.container("edge-portcullis-control-plane");
    assert_eq!(flag(plane, "http-host"), "edge-portcullis-console.gateways.svc");
    assert_eq!(flag(plane, "lease-name"), "edge-portcullis");
    let gateway = rendered.container("edge-portcullis-gateway");
    assert_eq!(flag(gateway, "xds-address"), "edge-portcullis-control-plane.$(POD_NAMESPACE).svc:9443");
    let names = |name: &str| rendered.get("Certificate", name)["spec"]["dnsNames"].clone();
    let plane_names = ["edge-portcullis-control-plane.gateways.svc", "edge-portcullis-console.gateways.svc"];
    assert_eq!(names("edge-portcullis-control-plane-xds"), json!(plane_names));
    assert_eq!(names("edge-portcullis-gateway-xds"), json!(["*.gateway.gateways"]));
    let role = rendered.get("Role", "edge-portcullis-control-plane");
    let leases = role["rules"].as_array().unwrap().iter().filter_map(|rule| rule["resourceNames"].as_array());
    assert_eq!(leases.collect::<Vec<_>>(), [&vec![json!("edge-portcullis"), json!("edge-portcullis-limits")]]);
    let binding = rendered.get("ClusterRoleBinding", "gateways:edge-portcullis-control-plane");
    assert_eq!(binding["subjects"][0]["namespace"], "gateways");
    for object in &rendered.objects {
        let text = object.to_string();
        // Groups of alerts have a fixed name.
        let is_alerts = object["kind"] == "PrometheusRule";
        assert!(is_alerts || !text.contains(r#""portcullis-control-plane"#), "{text}");
        assert!(!text.contains(r#"job=\"portcullis-"#), "{text}");
        let namespace = object["metadata"]["namespace"].as_str();
        assert!(namespace.is_none_or(|name| name == "gateways"), "{text}");
    }
    let alerts = rendered.get("PrometheusRule", "edge-portcullis").to_string();
    assert!(alerts.contains(r#"job=\"edge-portcullis-gateway-metrics\""#));
    let selectors = rendered.all("Service").map(|one| one["spec"]["selector"]["app.kubernetes.io/instance"].clone());
    assert!(selectors.into_iter().all(|instance| instance == "edge"));
    assert!(strings(&gateway["args"]).contains(&"--node-id=$(POD_NAME).gateway.$(POD_NAMESPACE)"));
}

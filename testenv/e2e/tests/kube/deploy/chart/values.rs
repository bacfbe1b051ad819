//! Each value does what its comment says, and a real kube-apiserver takes the outcome.

use portcullis_harness::deps;
use serde_json::{Value, json};

use super::helm::{DEFAULT, Helm, Release};
use crate::deploy::apply::{Cluster, is_stored, pods_are_admitted};
use crate::deploy::printed::printed;
use crate::deploy::rendered::{Rendered, documents, flag, strings};

const POD: &str = "/spec/template/spec";

/// Values, and what they make: kind, end of the name, path, value.
type Row = (Value, Vec<(&'static str, &'static str, String, Value)>);

fn rows() -> Vec<Row> {
    vec![workloads(), scaled(), placed(), exposed(), keyed(), by_name(), divided(), watched(), shut(), grouped()]
}

fn at(path: &str) -> String {
    format!("{POD}{path}")
}

fn workloads() -> Row {
    let digest = format!("sha256:{}", "a".repeat(64));
    let values = json!({
        "image": {"registry": "images.example.com:5000/team", "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]},
        "controlPlane": {"replicas": 3, "image": {"tag": "2.0"}, "priorityClassName": "system-cluster-critical",
            "extraArgs": ["--state-secrets"], "extraEnv": [{"name": "TZ", "value": "UTC"}], "resources": {"requests": {"cpu": "2"}}},
        "gateway": {"image": {"digest": digest}, "concurrency": 4, "extraArgs": ["--shutdown-delay=20s"], "extraEnvoyArgs": ["--log-level", "debug"],
            "podDisruptionBudget": {"maxUnavailable": "25%"}},
    });
    let image = format!("images.example.com:5000/team/gateway@{digest}");
    let made = vec![
        ("Deployment", "-control-plane", "/spec/replicas".into(), json!(3)),
        (
            "Deployment",
            "-control-plane",
            at("/containers/0/image"),
            json!("images.example.com:5000/team/control-plane:2.0"),
        ),
        ("Deployment", "-control-plane", at("/containers/0/imagePullPolicy"), json!("Always")),
        ("Deployment", "-control-plane", at("/imagePullSecrets/0/name"), json!("registry")),
        ("Deployment", "-control-plane", at("/priorityClassName"), json!("system-cluster-critical")),
        ("Deployment", "-control-plane", at("/containers/0/env/0/value"), json!("UTC")),
        ("Deployment", "-control-plane", at("/containers/0/args/13"), json!("--state-secrets")),
        ("Deployment", "-control-plane", at("/containers/0/resources/requests/cpu"), json!("2")),
        ("Deployment", "-gateway", at("/containers/0/image"), json!(image)),
        ("Deployment", "-gateway", at("/containers/0/args/11"), json!("--shutdown-delay=20s")),
        ("Deployment", "-gateway", at("/containers/0/args/14"), json!("4")),
        ("Deployment", "-gateway", at("/containers/0/args/16"), json!("debug")),
        ("PodDisruptionBudget", "-gateway", "/spec/maxUnavailable".into(), json!("25%")),
    ];
    (values, made)
}

fn scaled() -> Row {
    let autoscaling =
        json!({"enabled": true, "maxReplicas": 20, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}}});
    let made = vec![
        ("Deployment", "-gateway", "/spec/replicas".into(), Value::Null),
        ("HorizontalPodAutoscaler", "-gateway", "/spec/scaleTargetRef/kind".into(), json!("Deployment")),
        ("HorizontalPodAutoscaler", "-gateway", "/spec/maxReplicas".into(), json!(20)),
        (
            "HorizontalPodAutoscaler",
            "-gateway",
            "/spec/behavior/scaleDown/stabilizationWindowSeconds".into(),
            json!(600),
        ),
    ];
    (json!({"gateway": {"autoscaling": autoscaling}}), made)
}

fn placed() -> Row {
    let terms = json!([{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]);
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let pods = json!({
        "nodeSelector": {"pool": "edge"}, "tolerations": [{"key": "edge", "operator": "Exists"}], "affinity": affinity,
        "podAnnotations": {"team": "platform"}, "podLabels": {"cost": "platform"}, "serviceAccountAnnotations": {"a": "b"},
        "topologySpread": {"keys": ["kubernetes.io/hostname"], "whenUnsatisfiable": "DoNotSchedule"},
    });
    let mut made = Vec::new();
    for name in ["-control-plane", "-gateway"] {
        made.extend([
            ("Deployment", name, at("/nodeSelector/pool"), json!("edge")),
            ("Deployment", name, at("/tolerations/0/key"), json!("edge")),
            ("Deployment", name, at("/affinity"), affinity.clone()),
            ("Deployment", name, "/spec/template/metadata/annotations/team".into(), json!("platform")),
            ("Deployment", name, "/spec/template/metadata/labels/cost".into(), json!("platform")),
            ("Deployment", name, at("/topologySpreadConstraints/0/whenUnsatisfiable"), json!("DoNotSchedule")),
            ("Deployment", name, at("/topologySpreadConstraints/1"), Value::Null),
            ("ServiceAccount", name, "/metadata/annotations/a".into(), json!("b")),
        ]);
    }
    (json!({"controlPlane": pods, "gateway": pods}), made)
}

fn exposed() -> Row {
    let service = json!({"type": "LoadBalancer", "port": 6443, "annotations": {"lb": "nlb"}, "loadBalancerClass": "example.com/l4",
        "externalTrafficPolicy": "Cluster", "loadBalancerSourceRanges": ["10.0.0.0/8"]});
    let settings = json!({"listener": {"port": 7443, "tunnel": {"port": 8443}}, "metrics": {"users": "Hashed"}});
    let made = vec![
        ("Service", "-gateway", "/metadata/annotations/lb".into(), json!("nlb")),
        ("Service", "-gateway", "/spec/ports/0/port".into(), json!(6443)),
        ("Service", "-gateway", "/spec/externalTrafficPolicy".into(), json!("Cluster")),
        ("Service", "-gateway", "/spec/loadBalancerClass".into(), json!("example.com/l4")),
        ("Service", "-gateway", "/spec/loadBalancerSourceRanges/0".into(), json!("10.0.0.0/8")),
        ("Deployment", "-gateway", at("/containers/0/ports/0/containerPort"), json!(7443)),
        ("Deployment", "-gateway", at("/containers/0/ports/1"), json!({"name": "tunnel", "containerPort": 8443})),
        (
            "Service",
            "-gateway",
            "/spec/ports/1".into(),
            json!({"name": "tunnel", "port": 8443, "targetPort": "tunnel"}),
        ),
        ("NetworkPolicy", "-gateway", "/spec/ingress/0/ports/1".into(), json!({"port": "tunnel"})),
    ];
    (json!({"gateway": {"service": service}, "settings": settings}), made)
}

fn keyed() -> Row {
    let values = json!({
        "settingsSecret": "settings",
        "controlPlane": {"xdsSecret": "plane", "console": {"tlsSecret": "trusted", "hosts": ["console.example.com"]}},
        "gateway": {"xdsSecret": "gateways", "zones": true},
        "certManager": {"enabled": true, "issuerRef": {"kind": "ClusterIssuer", "name": "internal"}, "duration": "720h"},
    });
    let made = vec![
        ("Deployment", "-control-plane", at("/volumes/0/secret/secretName"), json!("settings")),
        ("Deployment", "-control-plane", at("/volumes/1/secret/secretName"), json!("plane")),
        ("Deployment", "-control-plane", at("/volumes/3/secret/secretName"), json!("trusted")),
        (
            "Deployment",
            "-control-plane",
            at("/containers/0/args/9"),
            json!("--http-tls-cert=/etc/portcullis/console/tls.crt"),
        ),
        ("Deployment", "-control-plane", at("/containers/0/args/12"), json!("--http-host=console.example.com")),
        ("Deployment", "-gateway", at("/volumes/0/secret/secretName"), json!("gateways")),
        ("Deployment", "-gateway", at("/containers/0/args/1"), json!("--zone=$(ZONE)")),
        ("Certificate", "-control-plane-xds", "/spec/secretName".into(), json!("plane")),
        ("Certificate", "-gateway-xds", "/spec/issuerRef/kind".into(), json!("ClusterIssuer")),
        ("Certificate", "-gateway-xds", "/spec/duration".into(), json!("720h")),
    ];
    (values, made)
}

fn by_name() -> Row {
    let made = vec![
        ("Deployment", "-control-plane", at("/containers/0/args/2"), json!("--settings-name=edge")),
        ("Deployment", "-control-plane", at("/containers/0/args/13"), json!("--gateway-api")),
        ("Deployment", "-control-plane", at("/volumes/0/name"), json!("xds")),
    ];
    (json!({"settingsName": "edge", "gatewayAPI": {"enabled": true}}), made)
}

fn divided() -> Row {
    let made = vec![
        ("Deployment", "-control-plane", at("/containers/0/args/13"), json!("--instances")),
        ("Deployment", "-control-plane", at("/containers/0/args/14"), json!("--policies")),
    ];
    (json!({"instances": {"enabled": true}, "policies": {"enabled": true}}), made)
}

fn watched() -> Row {
    let monitoring =
        json!({"enabled": true, "labels": {"release": "watch"}, "dashboardLabels": {"board": "yes"}, "interval": "1m"});
    let made = vec![
        ("ServiceMonitor", "-gateway", "/metadata/labels/release".into(), json!("watch")),
        ("ServiceMonitor", "-gateway", "/spec/endpoints/0/interval".into(), json!("1m")),
        ("PrometheusRule", "", "/metadata/labels/release".into(), json!("watch")),
        ("ConfigMap", "-dashboard", "/metadata/labels/board".into(), json!("yes")),
    ];
    (json!({"monitoring": monitoring, "certManager": {"enabled": true}}), made)
}

fn shut() -> Row {
    let policies = json!({"defaultDeny": false, "monitoringNamespace": "watch", "apiserverPorts": [8443],
        "apiservers": [{"cidr": "10.0.0.0/8"}], "dns": {"namespace": "dns", "podLabels": {"k8s-app": "coredns"}}});
    let made = vec![
        ("NetworkPolicy", "-gateway", "/spec/egress/1/ports".into(), json!([{"port": 8443}])),
        ("NetworkPolicy", "-gateway", "/spec/egress/1/to".into(), json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}])),
        (
            "NetworkPolicy",
            "-control-plane",
            "/spec/ingress/1/from/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name".into(),
            json!("watch"),
        ),
        ("NetworkPolicy", "-dns", "/spec/egress/0/to/0/podSelector/matchLabels/k8s-app".into(), json!("coredns")),
    ];
    (json!({"networkPolicies": policies}), made)
}

/// An entry is laid over the values of `gateway`, but for the Secret.
fn grouped() -> Row {
    let service = json!({"type": "LoadBalancer", "annotations": {"scheme": "internal"}});
    let values = json!({
        "gatewayAPI": {"enabled": true}, "instances": {"enabled": true}, "certManager": {"enabled": true},
        "monitoring": {"enabled": true},
        "gateway": {"replicas": 3, "xdsSecret": "own", "podLabels": {"cost": "platform"}, "service": {"annotations": {"lb": "nlb"}}},
        "envoys": [
            {"name": "edge", "gateway": "infra/edge", "ports": [443, 8443], "addresses": ["192.0.2.7"],
                "autoscaling": {"enabled": true}, "service": service, "image": {"tag": "2.0"}},
            {"name": "team-a", "instance": "a", "listener": {"port": 7443, "tunnel": {"port": 8443}}, "xdsSecret": "keys"},
        ],
    });
    let (edge, team) = ("-envoys-edge", "-envoys-team-a");
    let made = vec![
        ("Deployment", edge, "/spec/replicas".into(), Value::Null),
        ("HorizontalPodAutoscaler", edge, "/spec/scaleTargetRef/name".into(), json!("portcullis-envoys-edge")),
        ("Deployment", edge, at("/containers/0/args/1"), json!("--gateway=infra/edge")),
        ("Deployment", edge, at("/containers/0/args/2"), json!("--gateway-address=192.0.2.7")),
        ("Deployment", edge, at("/containers/0/image"), json!("portcullis.invalid/gateway:2.0")),
        ("Deployment", edge, at("/volumes/0/secret/secretName"), json!("portcullis-envoys-xds-edge")),
        ("Deployment", edge, "/spec/template/metadata/labels/cost".into(), json!("platform")),
        ("Service", edge, "/metadata/annotations".into(), json!({"lb": "nlb", "scheme": "internal"})),
        ("Deployment", team, "/spec/replicas".into(), json!(3)),
        ("Deployment", team, at("/containers/0/args/1"), json!("--instance=a")),
        ("Deployment", team, at("/containers/0/ports/0/containerPort"), json!(7443)),
        ("Deployment", team, at("/volumes/0/secret/secretName"), json!("keys")),
        ("Service", team, "/spec/ports/1/port".into(), json!(8443)),
        ("Certificate", "-envoys-xds-team-a", "/spec/secretName".into(), json!("keys")),
        ("Certificate", "-gateway-xds", "/spec/secretName".into(), json!("own")),
    ];
    (values, made)
}

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

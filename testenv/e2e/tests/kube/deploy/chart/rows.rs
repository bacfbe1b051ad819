//! Values, and what each of them makes.

use serde_json::{Value, json};

const POD: &str = "/spec/template/spec";

/// Values, and what they make: kind, end of the name, path, value.
pub(super) type Row = (Value, Vec<(&'static str, &'static str, String, Value)>);

pub(super) fn rows() -> Vec<Row> {
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

/// An entry is laid over the values of `gateway`, but for those that name or empower the gateways of no group.
fn grouped() -> Row {
    let service = json!({"type": "LoadBalancer", "annotations": {"scheme": "internal"}});
    let digest = format!("sha256:{}", "a".repeat(64));
    let values = json!({
        "gatewayAPI": {"enabled": true}, "instances": {"enabled": true}, "certManager": {"enabled": true},
        "monitoring": {"enabled": true},
        "gateway": {"replicas": 3, "xdsSecret": "own", "podLabels": {"cost": "platform"}, "serviceAccountAnnotations": {"role": "fleet"},
            "image": {"digest": digest}, "service": {"type": "LoadBalancer", "annotations": {"lb": "nlb"}, "port": 9443,
                "loadBalancerClass": "example.com/l4", "loadBalancerSourceRanges": ["10.0.0.0/8"]}},
        "envoys": [
            {"name": "edge", "gateway": "infra/edge", "ports": [443, 8443], "addresses": ["192.0.2.7"],
                "autoscaling": {"enabled": true}, "service": service, "image": {"tag": "2.0"},
                "apiserverPorts": [8443], "apiservers": [{"cidr": "10.0.0.0/8"}]},
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
        ("Service", edge, "/metadata/annotations".into(), json!({"scheme": "internal"})),
        ("Service", edge, "/spec/loadBalancerClass".into(), Value::Null),
        ("Service", edge, "/spec/loadBalancerSourceRanges".into(), Value::Null),
        ("ServiceAccount", edge, "/metadata/annotations".into(), Value::Null),
        ("NetworkPolicy", edge, "/spec/egress/1/ports".into(), json!([{"port": 8443}])),
        ("NetworkPolicy", edge, "/spec/egress/1/to".into(), json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}])),
        ("NetworkPolicy", team, "/spec/egress/1/ports".into(), json!([{"port": 443}, {"port": 6443}])),
        ("NetworkPolicy", "-gateway", "/spec/egress/1/ports".into(), json!([{"port": 443}, {"port": 6443}])),
        ("NetworkPolicy", "-control-plane", "/spec/egress/0/ports".into(), json!([{"port": 443}, {"port": 6443}])),
        ("Service", team, "/metadata/annotations".into(), Value::Null),
        ("Service", team, "/spec/type".into(), json!("ClusterIP")),
        ("Service", team, "/spec/ports/0/port".into(), json!(9443)),
        ("Deployment", team, at("/containers/0/image"), json!(format!("portcullis.invalid/gateway@{digest}"))),
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

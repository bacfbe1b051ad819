//! The properties that every workload must declare.

use serde_json::{Value, json};

use super::rendered::{CONTROL_PLANE, GATEWAY, Rendered, flag, strings};

const WORKLOADS: [&str; 2] = [CONTROL_PLANE, GATEWAY];

/// Beyond the level `restricted` of PodSecurity, by which a real kube-apiserver judges the pods (`apply.rs`).
#[test]
fn workloads_are_confined() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let all: Vec<&str> = rendered.all("Deployment").map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(all, WORKLOADS);
    for name in WORKLOADS {
        let container = rendered.container(name);
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{name}");
        for (kind, resource) in [("requests", "cpu"), ("requests", "memory"), ("limits", "memory")] {
            assert!(container["resources"][kind][resource].is_string(), "{name}: {kind} of {resource}");
        }
    }
}

#[test]
fn workloads_survive_what_a_cluster_does_to_them() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    for name in WORKLOADS {
        let deployment = &rendered.get("Deployment", name)["spec"];
        assert!(deployment["replicas"].as_u64() >= Some(2), "{name}");
        let labels = &deployment["template"]["metadata"]["labels"];
        assert_eq!(&deployment["selector"]["matchLabels"], labels, "{name}");
        let budget = &rendered.get("PodDisruptionBudget", name)["spec"];
        assert_eq!((&budget["maxUnavailable"], &budget["selector"]["matchLabels"]), (&json!(1), labels), "{name}");
        let spread = deployment["template"]["spec"]["topologySpreadConstraints"].as_array().unwrap();
        let keys: Vec<&Value> = spread.iter().map(|one| &one["topologyKey"]).collect();
        assert_eq!(keys, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"], "{name}");
        assert!(spread.iter().all(|one| one["labelSelector"]["matchLabels"] == *labels), "{name}");
    }
}

/// A session of the console belongs to one replica.
#[test]
fn console_keeps_its_readers_at_one_replica() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let console = rendered.get("Service", "portcullis-console");
    let spec = &console["spec"];
    assert_eq!((&spec["sessionAffinity"], &spec["type"]), (&json!("ClientIP"), &json!("ClusterIP")));
    // The longest life of a session.
    assert_eq!(spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 8 * 3_600);
    let pods = &rendered.get("Deployment", CONTROL_PLANE)["spec"]["template"]["metadata"]["labels"];
    assert_eq!(spec["selector"], *pods);
    assert_eq!(spec["ports"], json!([{"name": "https", "port": 443, "targetPort": "http"}]));
    assert_eq!(flag(rendered.container(CONTROL_PLANE), "http-host"), "portcullis-console.portcullis.svc");
    // Otherwise Prometheus would count every replica twice.
    let monitor = rendered.get("ServiceMonitor", CONTROL_PLANE);
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
    assert!(wanted.iter().any(|(label, value)| console["metadata"]["labels"][label] != *value));
}

#[test]
fn gateway_has_time_to_let_its_clients_go() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let seconds = |name: &str| flag(rendered.container(GATEWAY), name).trim_end_matches('s').parse::<u64>().unwrap();
    let pod = &rendered.get("Deployment", GATEWAY)["spec"]["template"]["spec"];
    let patience = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    // Ten seconds are the most that the agent gives Envoy for its own end.
    assert!(patience >= seconds("shutdown-delay") + seconds("drain-timeout") + 10);
    // Shorter than a load balancer takes to notice would send clients away to nowhere.
    let probe = &rendered.container(GATEWAY)["readinessProbe"];
    let noticed = probe["periodSeconds"].as_u64().unwrap() * probe["failureThreshold"].as_u64().unwrap();
    assert!(seconds("shutdown-delay") >= noticed + 5);
}

/// A port without a listener, or a probe of another page, would only show in a cluster.
#[test]
fn ports_and_probes_are_those_of_the_flags() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    let port = |address: &str| address.rsplit(':').next().unwrap().parse::<u64>().unwrap();
    let settings = rendered.get("ConfigMap", "portcullis-settings")["data"]["settings.yaml"].as_str().unwrap();
    let settings: Value = serde_saphyr::from_str(settings).unwrap();
    let (plane, gateway) = (rendered.container(CONTROL_PLANE), rendered.container(GATEWAY));
    let ports = |container: &Value| -> Vec<(String, u64)> {
        let ports = container["ports"].as_array().unwrap().iter();
        ports.map(|one| (one["name"].as_str().unwrap().to_owned(), one["containerPort"].as_u64().unwrap())).collect()
    };
    let named = |name: &str, port: u64| (name.to_owned(), port);
    assert_eq!(
        ports(plane),
        [named("xds", port(flag(plane, "xds-address"))), named("http", port(flag(plane, "http-address")))]
    );
    let listener = settings["spec"]["listener"]["port"].as_u64().unwrap();
    assert_eq!(ports(gateway), [named("https", listener), named("http", port(flag(gateway, "http-address")))]);
    assert!(ports(gateway).iter().chain(&ports(plane)).all(|(_, port)| *port > 1024), "no right to bind others");
    for container in [plane, gateway] {
        for (probe, page) in [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
            assert_eq!(container[probe]["httpGet"], json!({"path": page, "port": "http"}));
        }
    }
    let services: Vec<&Value> = rendered.all("Service").collect();
    assert_eq!(services.len(), 4);
    for service in services {
        let selector = &service["spec"]["selector"];
        let mut chosen = rendered.all("Deployment").filter(|one| one["spec"]["selector"]["matchLabels"] == *selector);
        let deployment = chosen.next().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        for entry in service["spec"]["ports"].as_array().unwrap() {
            let target = entry["targetPort"].as_str().unwrap();
            assert!(ports(rendered.container(&deployment)).iter().any(|(name, _)| name == target), "{service}");
        }
    }
    let xds = rendered.get("Service", CONTROL_PLANE);
    let address = format!("{CONTROL_PLANE}.$(POD_NAMESPACE).svc:{}", xds["spec"]["ports"][0]["port"]);
    assert_eq!(flag(gateway, "xds-address"), address);
    assert_eq!(xds["spec"]["clusterIP"], "None", "agents tell every replica");
}

#[test]
fn mounts_are_the_paths_of_the_flags() {
    let Some(rendered) = Rendered::of("overlays/complete") else { return };
    for name in WORKLOADS {
        let container = rendered.container(name);
        let mounts: Vec<&str> = container["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["mountPath"].as_str().unwrap())
            .collect();
        let in_image = |path: &str| path.starts_with("/usr/local/");
        for argument in strings(&container["args"]) {
            let Some((_, path)) = argument.split_once('=').filter(|(_, value)| value.starts_with('/')) else {
                continue;
            };
            assert!(in_image(path) || mounts.iter().any(|mount| path.starts_with(mount)), "{name}: {argument}");
        }
    }
    assert_eq!(rendered.get("Deployment", GATEWAY)["spec"]["template"]["spec"]["automountServiceAccountToken"], false);
}

/// Optional parts, each for itself.
#[test]
fn components_change_what_they_are_for() {
    let Some(rendered) = Rendered::of("../../testenv/e2e/tests/kube/deploy/components") else { return };
    let service = &rendered.get("Service", GATEWAY)["spec"];
    assert_eq!((&service["type"], &service["externalTrafficPolicy"]), (&json!("LoadBalancer"), &json!("Local")));
    let args = strings(&rendered.container(GATEWAY)["args"]);
    let end = args.iter().position(|arg| *arg == "--").unwrap();
    assert!(args[..end].contains(&"--zone=$(ZONE)"), "{args:?}");
}

//! Envoys of Instances and of Gateways: their objects select nothing of others, and their certificates fit their arguments.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_harness::project_root;
use portcullis_harness::rundir::RunDir;
use portcullis_xds::{GATEWAY_DOMAIN, INSTANCE_DOMAIN};
use serde_json::{Value, json};

use super::chart::{Helm, Release};
use super::rendered::{ENVOYS, Rendered, flag, strings};

/// The label by which Deployments of several groups differ.
const LABEL: &str = "portcullis.dev/envoys";

/// Those of kustomize, and those of a release of another name, with and without the Envoys of no group.
fn variants(test: &str) -> Vec<Rendered> {
    let mut all: Vec<Rendered> = Rendered::of(ENVOYS).into_iter().collect();
    let Some(helm) = Helm::find(test) else { return all };
    for own in [true, false] {
        let values = json!({
            "gateway": {"enabled": own}, "gatewayAPI": {"enabled": true}, "instances": {"enabled": true},
            "certManager": {"enabled": true}, "monitoring": {"enabled": true},
            "envoys": [
                {"name": "edge", "gateway": "infra/edge", "ports": [443, 80], "autoscaling": {"enabled": true}},
                {"name": "metrics-edge", "gateway": "infra/in.ner", "ports": [8443]},
                {"name": "gateway", "instance": "a"},
                {"name": "team-b", "instance": "b", "listener": {"port": 7443}},
            ],
        });
        all.push(helm.render(Release { name: "edge", namespace: "gateways" }, &values));
    }
    all
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn pod_labels(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["metadata"]["labels"]
}

/// Whether labels are among an object's; those of no label would be among all.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
}

/// The names of the Deployments whose pods are selected.
fn selected<'a>(rendered: &'a Rendered, selector: &Value) -> Vec<&'a str> {
    rendered.all("Deployment").filter(|one| selects(selector, pod_labels(one))).map(name).collect()
}

/// The Deployments of Envoys, each with its container.
fn of_envoys(rendered: &Rendered) -> Vec<(&Value, &Value)> {
    let plane = rendered.names.control_plane();
    let all = rendered.all("Deployment").filter(|one| name(one) != plane);
    all.map(|one| (one, rendered.container(name(one)))).collect()
}

#[test]
fn envoys_are_selected_by_objects_of_their_own() {
    for rendered in variants("envoys-selectors") {
        for kind in ["Deployment", "PodDisruptionBudget"] {
            for object in rendered.all(kind) {
                assert_eq!(selected(&rendered, &object["spec"]["selector"]["matchLabels"]), [name(object)], "{kind}");
            }
        }
        let mut services = BTreeMap::<&str, usize>::new();
        for service in rendered.all("Service") {
            let found = selected(&rendered, &service["spec"]["selector"]);
            assert_eq!(found.len(), 1, "{}: {found:?}", name(service));
            *services.entry(found[0]).or_default() += 1;
        }
        for (deployment, _) in of_envoys(&rendered) {
            assert_eq!(services[name(deployment)], 2, "one for clients, and one for metrics: {}", name(deployment));
            let pod = &deployment["spec"]["template"]["spec"];
            for spread in pod["topologySpreadConstraints"].as_array().unwrap() {
                let found = selected(&rendered, &spread["labelSelector"]["matchLabels"]);
                assert_eq!(found, [name(deployment)]);
            }
        }
        for scaler in rendered.all("HorizontalPodAutoscaler") {
            assert_eq!(scaler["spec"]["scaleTargetRef"]["name"], name(scaler));
        }
    }
}

#[test]
fn monitors_of_envoys_find_one_service_each() {
    for rendered in variants("envoys-monitors") {
        let mut found = BTreeSet::new();
        for monitor in rendered.all("ServiceMonitor") {
            let wanted = &monitor["spec"]["selector"]["matchLabels"];
            let services: Vec<&Value> =
                rendered.all("Service").filter(|one| selects(wanted, &one["metadata"]["labels"])).collect();
            assert_eq!(services.len(), 1, "{}", name(monitor));
            assert!(found.insert(name(services[0])), "{} is read twice", name(services[0]));
        }
        assert_eq!(found.len(), rendered.all("Deployment").count());
        // The job of a target is its Service's name.
        let rules: String = rendered.all("PrometheusRule").map(|one| one["spec"].to_string()).collect();
        for service in found {
            assert!(rules.contains(&format!(r#"absent(up{{job=\"{service}\"}} == 1)"#)), "no alert for {service}");
        }
        let jobs = rules.matches("absent(up{job=").count();
        assert_eq!(jobs, rendered.all("Deployment").count(), "an alert for a job that is not there never ends");
    }
}

/// The name with which the control plane binds an Envoy to what its arguments say.
fn bound_name(container: &Value) -> Option<String> {
    let is_given = |flag: &str| strings(&container["args"]).iter().any(|one| one.starts_with(flag));
    if is_given("--gateway=") {
        let (namespace, gateway) = flag(container, "gateway").split_once('/').unwrap();
        return Some(format!("{gateway}.{namespace}.{GATEWAY_DOMAIN}"));
    }
    is_given("--instance=").then(|| format!("{}.{INSTANCE_DOMAIN}", flag(container, "instance")))
}

#[test]
fn certificates_of_envoys_name_what_their_arguments_say() {
    for rendered in variants("envoys-certificates") {
        let mut secrets = BTreeSet::new();
        for (deployment, container) in of_envoys(&rendered) {
            let secret = &deployment["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"];
            assert!(secrets.insert(secret.as_str().unwrap()), "{secret} is mounted into two Deployments");
            let found: Vec<&Value> =
                rendered.all("Certificate").filter(|one| one["spec"]["secretName"] == *secret).collect();
            assert_eq!(found.len(), 1, "{secret}");
            let group = pod_labels(deployment)[LABEL].as_str().unwrap_or_default();
            let node = flag(container, "node-id").replace("$(ENVOYS)", group);
            let node = node.replace("$(POD_NAMESPACE)", &rendered.names.namespace);
            let domain = node.strip_prefix("$(POD_NAME).").unwrap();
            assert!(!domain.contains('$'), "{domain}");
            let expected: Vec<String> = [format!("*.{domain}")].into_iter().chain(bound_name(container)).collect();
            assert_eq!(strings(&found[0]["spec"]["dnsNames"]), expected, "{}", name(deployment));
        }
        let bound = of_envoys(&rendered).into_iter().filter_map(|(_, container)| bound_name(container)).count();
        assert!(bound >= 3, "{bound} groups");
    }
}

/// The sources of a policy's rules for a port.
fn sources<'a>(policy: &'a Value, port: &str) -> Vec<&'a Value> {
    let rules = policy["spec"]["ingress"].as_array().into_iter().flatten();
    let of_port = rules.filter(|rule| rule["ports"] == json!([{"port": port}]));
    of_port.flat_map(|rule| rule["from"].as_array().unwrap_or_else(|| panic!("from anywhere: {rule}"))).collect()
}

#[test]
fn keys_travel_to_pods_of_rendered_envoys_only() {
    for rendered in variants("envoys-keys") {
        let plane = rendered.get("Deployment", &rendered.names.control_plane());
        let at_plane = |one: &&Value| selects_pods(one, pod_labels(plane));
        let from: Vec<&Value> =
            rendered.all("NetworkPolicy").filter(at_plane).flat_map(|one| sources(one, "xds")).collect();
        let let_in =
            |labels: &Value| from.iter().filter(|one| selects(&one["podSelector"]["matchLabels"], labels)).count();
        for one in &from {
            assert_eq!(one.as_object().unwrap().len(), 1, "pods of this namespace alone: {one}");
        }
        assert_eq!(from.len(), of_envoys(&rendered).len());
        assert_eq!(let_in(pod_labels(plane)), 0);
        for (deployment, _) in of_envoys(&rendered) {
            assert_eq!(let_in(pod_labels(deployment)), 1, "{}", name(deployment));
            let mut other = pod_labels(deployment).clone();
            if !other[LABEL].is_null() {
                other[LABEL] = json!("other");
                assert_eq!(let_in(&other), 0, "{other}");
            }
        }
    }
}

/// A Gateway without a listener leaves its Envoys without readiness: by the default of a budget no node of theirs could be drained.
#[test]
fn budgets_of_envoys_let_pods_go_that_are_not_ready() {
    for rendered in variants("envoys-budgets") {
        for (deployment, _) in of_envoys(&rendered) {
            let budget = &rendered.get("PodDisruptionBudget", name(deployment))["spec"];
            assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow", "{}", name(deployment));
        }
    }
}

/// Whether a policy is about these pods alone, or pods like these.
fn selects_pods(policy: &Value, labels: &Value) -> bool {
    policy["spec"]["podSelector"]["matchLabels"].is_object()
        && selects(&policy["spec"]["podSelector"]["matchLabels"], labels)
}

#[test]
fn ports_of_envoys_are_open_at_service_pod_and_policy() {
    for rendered in variants("envoys-ports") {
        for (deployment, container) in of_envoys(&rendered) {
            let ports: BTreeMap<&str, u64> = container["ports"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| (one["name"].as_str().unwrap(), one["containerPort"].as_u64().unwrap()))
                .filter(|(name, _)| *name != "http")
                .collect();
            let service = &rendered.get("Service", name(deployment))["spec"]["ports"];
            let of_service: BTreeSet<&str> =
                service.as_array().unwrap().iter().map(|one| one["targetPort"].as_str().unwrap()).collect();
            let policy = &rendered.get("NetworkPolicy", name(deployment))["spec"];
            assert!(selects(&policy["podSelector"]["matchLabels"], pod_labels(deployment)));
            let open = &policy["ingress"][0];
            assert!(open["from"].is_null(), "clients come from anywhere");
            let of_policy: BTreeSet<&str> =
                open["ports"].as_array().unwrap().iter().map(|one| one["port"].as_str().unwrap()).collect();
            let names: BTreeSet<&str> = ports.keys().copied().collect();
            assert_eq!((&of_service, &of_policy), (&names, &names), "{}", name(deployment));
            let sysctls = &deployment["spec"]["template"]["spec"]["securityContext"]["sysctls"];
            let expected = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
            let is_low = ports.values().any(|port| *port < 1024);
            assert_eq!(*sysctls == expected, is_low, "{}: {sysctls}", name(deployment));
            // A redirect leads to the port of the Gateway's listener.
            if strings(&container["args"]).iter().any(|one| one.starts_with("--gateway=")) {
                for one in service.as_array().unwrap() {
                    assert_eq!(one["port"], ports[one["targetPort"].as_str().unwrap()], "{one}");
                }
            }
        }
    }
}

/// The overlays that deploy/kubernetes/README.md shows, made as they are printed there.
#[test]
fn envoys_of_the_readme_are_built() {
    let readme = std::fs::read_to_string(project_root().join("deploy/kubernetes/README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Envoys of Instances and Gateways\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks: Vec<&str> = section.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert_eq!(blocks.len(), 4, "edge, both, further ports, and a load balancer");
    let run = RunDir::new("envoys-readme").unwrap();
    // kustomize takes no absolute path.
    let up = "../".repeat(run.path().components().count() - 1);
    let deploy = format!("{up}{}/", project_root().join("deploy/kubernetes").strip_prefix("/").unwrap().display());
    let edge = blocks[0].replace("../../../", &format!("../{deploy}"));
    for (group, text) in [
        // The last ones are in a list.
        ("edge", edge.clone() + &format!("\n{}{}", blocks[2].trim_end_matches(' '), blocks[3]).replace("\n  ", "\n")),
        (
            "team-a",
            edge.replace("of-gateway", "of-instance")
                .replace("[name=edge, gateway=infra/edge]", "[name=team-a, instance=team-a]"),
        ),
    ] {
        std::fs::write(run.make_dir(group).unwrap().join("kustomization.yaml"), text).unwrap();
    }
    let with_zones = blocks[1].replace("components/instances]", "components/instances, ../../components/zones]");
    run.write("kustomization.yaml", with_zones.replace("../../", &deploy)).unwrap();
    let Some(rendered) = Rendered::at(run.path()) else { return };
    assert!(!rendered.text.replace("POD_NAME", "").contains("NAME"), "a place without its name");
    assert_eq!(of_envoys(&rendered).len(), 3);
    let edge = rendered.container("portcullis-envoys-edge");
    assert_eq!(flag(edge, "gateway"), "infra/edge");
    let ports: Vec<u64> =
        edge["ports"].as_array().unwrap().iter().filter_map(|one| one["containerPort"].as_u64()).collect();
    assert_eq!(ports, [443, 9081, 80]);
    for (_, container) in of_envoys(&rendered) {
        assert_eq!(flag(container, "zone"), "$(ZONE)", "components/zones is about all Envoys");
    }
    let service = &rendered.get("Service", "portcullis-envoys-edge")["spec"];
    assert_eq!((&service["type"], &service["externalTrafficPolicy"]), (&json!("LoadBalancer"), &json!("Local")));
    assert_eq!(rendered.get("Service", "portcullis-envoys-team-a")["spec"]["type"], "ClusterIP");
    assert_eq!(flag(rendered.container("portcullis-envoys-team-a"), "instance"), "team-a");
}

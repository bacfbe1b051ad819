//! The objects that `envoy/envoy-gateway/render` prints, as far as they can be judged without Envoy Gateway.

use portcullis_harness::certs::Ca;
use portcullis_harness::rundir::RunDir;
use serde_json::{Value, json};

use super::render::{pki, printed, run_script};

fn rendered(more: &[&str]) -> Vec<Value> {
    let run = RunDir::new("render-eg").unwrap();
    let pki = pki(&run, &Ca::new("clients").unwrap());
    let objects = printed(&run_script("envoy-gateway", &["name=kubernetes.example.org"], &pki, more));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&objects).unwrap();
    objects.into_iter().filter(|object| !object.is_null()).collect()
}

/// The values of all patches of one type, by the name of the resource.
fn patched<'a>(objects: &'a [Value], kind: &str) -> Vec<(&'a str, &'a Value)> {
    let policies = objects.iter().filter(|object| object["kind"] == "EnvoyPatchPolicy");
    let patches = policies.flat_map(|policy| policy["spec"]["jsonPatches"].as_array().unwrap());
    let patches = patches.filter(|patch| patch["type"].as_str().unwrap().ends_with(kind));
    patches.map(|patch| (patch["name"].as_str().unwrap(), &patch["operation"]["value"])).collect()
}

fn virtual_host(objects: &[Value]) -> &Value {
    let routes = patched(objects, ".RouteConfiguration");
    let [(_, hosts)] = routes.as_slice() else { panic!("{routes:?}") };
    let [host] = hosts.as_array().unwrap().as_slice() else { panic!("{hosts:#}") };
    host
}

#[test]
fn pools_of_envoy_gateway_open_to_the_filter_alone() {
    let objects = rendered(&[]);
    let (last, opened) = virtual_host(&objects)["routes"].as_array().unwrap().split_last().unwrap();
    assert_eq!(last["direct_response"]["status"], 503, "{last:#}");
    let clusters = patched(&objects, ".Cluster");
    for route in opened {
        assert_eq!(route["match"]["filter_state"][0]["key"], "portcullis.destination", "{route:#}");
        let cluster = route["route"]["cluster"].as_str().unwrap();
        assert!(clusters.iter().any(|(name, value)| *name == cluster && value["name"] == cluster), "{cluster}");
    }
    for (name, cluster) in &clusters {
        let tls = cluster["transport_socket"]["typed_config"]["common_tls_context"].to_string();
        let shows = tls.contains("tls_certificate_sds_secret_configs");
        assert_eq!(shows, name.ends_with("/h2") || name.ends_with("/upgrade"), "{name}");
    }
    // Nothing that an HTTPRoute of any namespace could name, or that would show the certificate to its backends.
    for object in &objects {
        assert_ne!(object["kind"], "Backend");
        assert_ne!(object["kind"], "ReferenceGrant");
        let spec = &object["spec"];
        assert!(spec["backendTLS"].is_null() && spec["tls"]["backend"].is_null(), "{object:#}");
        assert!(spec["rules"].as_array().into_iter().flatten().all(|rule| rule["backendRefs"].is_null()), "{object:#}");
    }
}

#[test]
fn patches_of_envoy_gateway_name_what_it_makes() {
    let more = ["namespace=prod-ingress", "pods=proxies", "class=eg-two"];
    let objects = rendered(&more);
    let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let listener = of("Gateway")["spec"]["listeners"][0]["name"].as_str().unwrap();
    let resource = format!("prod-ingress/kubernetes-example-org/{listener}");
    for kind in [".RouteConfiguration", ".Listener"] {
        let patches = patched(&objects, kind);
        assert!(!patches.is_empty() && patches.iter().all(|(name, _)| *name == resource), "{kind}: {patches:?}");
    }
    let policy = &of("EnvoyExtensionPolicy")["metadata"];
    assert_eq!(*policy, json!({"name": "kubernetes-example-org", "namespace": "prod-ingress"}));
    let filters: Vec<_> = virtual_host(&objects)["typed_per_filter_config"].as_object().unwrap().keys().collect();
    let filter = "envoyextensionpolicy/prod-ingress/kubernetes-example-org/dynamic-module/0";
    assert_eq!(filters, [&format!("envoy.filters.http.dynamic_modules/{filter}")]);
    assert_eq!(of("Gateway")["spec"]["gatewayClassName"], "eg-two");
    let (upstream, rest): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| object["metadata"]["name"] == "kubernetes-example-org-upstream");
    assert!(upstream.iter().all(|object| object["metadata"]["namespace"] == "proxies"), "{upstream:?}");
    assert!(rest.iter().all(|object| object["metadata"]["namespace"] == "prod-ingress"), "{rest:?}");
}

/// Timeouts and retries of a class of requests are no matter of who made the gateway.
#[test]
fn routes_of_envoy_gateway_are_those_of_istio() {
    let run = RunDir::new("render-eg-istio").unwrap();
    let pki = pki(&run, &Ca::new("clients").unwrap());
    let istio = printed(&run_script("istio", &["module", "name=kubernetes.example.org"], &pki, &[]));
    let istio: Vec<Value> = serde_saphyr::from_multiple(&istio).unwrap();
    let patches = istio.iter().flat_map(|object| object["spec"]["configPatches"].as_array().into_iter().flatten());
    let routes = patches.filter(|patch| patch["applyTo"] == "HTTP_ROUTE").map(|patch| &patch["patch"]["value"]);
    let without_cluster = |route: &Value| {
        let mut route = route.clone();
        route["route"]["cluster"].take();
        route
    };
    let expected: Vec<_> = routes.map(without_cluster).collect();
    let objects = rendered(&[]);
    let (_, opened) = virtual_host(&objects)["routes"].as_array().unwrap().split_last().unwrap();
    assert_eq!(opened.iter().map(without_cluster).collect::<Vec<_>>(), expected);
}

#[test]
fn script_for_envoy_gateway_refuses_odd_input() {
    let run = RunDir::new("render-eg-odd").unwrap();
    let pki = pki(&run, &Ca::new("clients").unwrap());
    for odd in ["namespace=a&b", "pods=a\nb", "class=A", "name=a_b", "name=", "server=a:1", "x=y"] {
        let output = run_script("envoy-gateway", &["name=kubernetes.example.org"], &pki, &[odd]);
        assert!(!output.status.success() && output.stdout.is_empty(), "{odd}: {output:?}");
    }
    std::fs::remove_file(pki.join("client.key")).unwrap();
    let output = run_script("envoy-gateway", &["name=kubernetes.example.org"], &pki, &[]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
}

//! The patch that gives the gateway's pods the module.

use portcullis_harness::kube::KubeOptions;
use portcullis_harness::project_root;
use serde_json::json;

use super::fixture::admin;
use crate::fixture::BareKube;

/// As Istio's own charts make it, as far as the patch is concerned.
const GATEWAY: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: istio-ingressgateway, namespace: default}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  template:
    metadata: {labels: {istio: ingressgateway}}
    spec:
      containers:
      - name: istio-proxy
        image: auto
        env: [{name: ISTIO_META_ROUTER_MODE, value: standard}]
        volumeMounts: [{name: config, mountPath: /etc/istio/config}]
      volumes: [{name: config, emptyDir: {}}]
"#;

#[test]
fn gateway_pods_get_the_module_by_the_patch() {
    let Some(BareKube { kube, run, .. }) = BareKube::start("istio-pods", KubeOptions::default()) else { return };
    let file = run.write("gateway.yaml", GATEWAY).unwrap();
    admin(&kube, &["create", "-f", file.to_str().unwrap()]);
    let patch = project_root().join("envoy/istio/pods.yaml");
    admin(&kube, &["patch", "deployment", "istio-ingressgateway", "--patch-file", patch.to_str().unwrap()]);
    let args = ["get", "deployment", "istio-ingressgateway"];
    let stored = kube.admin_kubectl().unwrap().args(args).json().unwrap();
    let pod = &stored["spec"]["template"]["spec"];
    let proxy = &pod["containers"][0];
    assert_eq!((pod["containers"].as_array().unwrap().len(), &proxy["name"]), (1, &json!("istio-proxy")));
    let variables = proxy["env"].as_array().unwrap();
    assert!(variables.contains(&json!({"name": "ENVOY_DYNAMIC_MODULES_SEARCH_PATH", "value": "/portcullis"})));
    assert_eq!((variables.len(), proxy["volumeMounts"].as_array().unwrap().len()), (2, 2), "what was there stays");
    // The directory that is searched is the one into which the module is copied.
    let copied = &pod["initContainers"][0];
    let target = copied["command"].as_array().unwrap().last().unwrap();
    assert_eq!(target, &json!("/portcullis/"));
    assert!(pod["volumes"].as_array().unwrap().iter().any(|one| one["name"] == copied["volumeMounts"][0]["name"]));
}

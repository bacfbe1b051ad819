//! Flows in fair queues, as an operator sees them.

use serde_json::{Value, json};

use super::{World, get, with};

const FAIR: &str = r#"
apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata: {name: a.test}
spec:
  servers: [{endpoint: "https://10.0.0.1:6443"}]
  portcullis:
    fairQueues: [{name: fair, max: 40, by: userGroup, weights: [{flow: dev, weight: 3}]}]
  dispatchPolicies:
  - rules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], nonResourceURLs: ["*"]}]
    flowControlSchemaName: fair
"#;

#[test]
fn flow_and_seats_in_a_fair_queue_are_shown() {
    let world = World::new(FAIR);
    let node = json!({"name": "system:node:a", "groups": ["system:nodes", "system:authenticated"]});
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a";
    let cases = [
        (get("/api/v1/namespaces/x/pods/p"), "dev", 1, json!(3)),
        (get("/api/v1/pods?limit=250"), "dev", 3, json!(3)),
        (get("/api/v1/pods"), "dev", 6, json!(3)),
        (get("/api/v1/pods?watch=1&resourceVersion=5"), "dev", 1, json!(3)),
        (get("/api/v1/namespaces/x/pods/p/log?follow=1"), "dev", 0, Value::Null),
        (with(get("/api/v1/pods?limit=1"), json!({"user": node})), "system:nodes", 1, json!(1)),
        (with(get(lease), json!({"user": node})), "system:nodes", 0, Value::Null),
    ];
    for (request, name, seats, weight) in cases {
        let flow = &world.one(request.clone())["dispatch"]["flow"];
        assert_eq!(*flow, json!({"name": name, "seats": seats, "weight": weight}), "{request}");
    }
}

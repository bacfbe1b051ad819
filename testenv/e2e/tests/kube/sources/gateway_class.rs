//! A GatewayClass that is deleted, made anew, or given to another controller.

use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::gateway_api::{CLASS, Site};

const GATEWAY: [&str; 3] = ["gateways", "infra", "edge"];
const ROUTE: [&str; 3] = ["tlsroutes", "infra", "r"];
/// The conditions of a Gateway whose class is not there.
const PENDING: [&str; 2] = ["Accepted Unknown Pending", "Programmed False Pending"];

impl Site {
    fn apply_class(&self, controller: &str) {
        self.apply("GatewayClass", "", CLASS, &json!({"controllerName": controller}));
    }

    fn delete_class(&self) {
        self.fixture.admin(&["delete", "gatewayclass", CLASS]);
    }

    /// The conditions of the Gateway, other than one.
    fn conditions_but(&self, kind: &str) -> Vec<Value> {
        let found = self.get(GATEWAY[0], GATEWAY[1], GATEWAY[2]);
        let all = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|one| one["type"] != kind).collect()
    }
}

#[test]
fn gateway_says_that_its_class_is_gone_over_a_restart() {
    let Some(mut site) = Site::start("gateway-class") else { return };
    site.fixture.admin(&["create", "namespace", "infra"]);
    site.apply_class("portcullis.dev/gateway-controller");
    let listener = json!({"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}});
    site.apply("Gateway", "infra", "edge", &json!({"gatewayClassName": CLASS, "listeners": [listener]}));
    site.route_of(ROUTE, &["r.example.org"]);
    let accepted = ["Accepted True Accepted", "ResolvedRefs True ResolvedRefs"];
    site.wait(GATEWAY, "", &accepted);
    site.wait(ROUTE, "/parents/0", &["Accepted True Accepted"]);

    site.delete_class();
    let found = site.wait(GATEWAY, "", &PENDING).to_string();
    assert!(found.contains(&format!("GatewayClass {CLASS} is not there")), "{found}");
    site.wait(GATEWAY, "/listeners/0", &["Programmed False Pending"]);
    wait::until_ok("the route says why it is not served", SOON, || {
        let kept = site.wait(ROUTE, "/parents/0", &["Accepted True Accepted"]).to_string();
        if kept.contains("the Gateway is not accepted") { Ok(()) } else { Err(kept) }
    })
    .unwrap();
    site.plane.restart().unwrap();
    site.route_of(ROUTE, &["r.example.org", "s.example.org"]);
    site.wait(ROUTE, "/parents/0", &["Accepted True Accepted", "portcullis.dev/HostnamesHeld True Held"]);
    site.wait(GATEWAY, "", &PENDING);

    site.apply_class("portcullis.dev/gateway-controller");
    site.wait(GATEWAY, "", &accepted);
    site.delete_class();
    site.wait(GATEWAY, "", &PENDING);

    // A condition as policies leave it there.
    let own = "portcullis.dev/DispatchPolicyAffected";
    let others = site.conditions_but(own);
    let mut all = others.clone();
    all.push(json!({
        "type": own, "status": "True", "reason": "PolicyAffected", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }));
    site.apply_class("example.com/other");
    let path = "/apis/gateway.networking.k8s.io/v1/namespaces/infra/gateways/edge";
    site.fixture.kube.patch_status(path, &json!({"conditions": all})).unwrap();
    wait::until_ok("the own condition is gone", SOON, || {
        let found = site.get(GATEWAY[0], GATEWAY[1], GATEWAY[2])["status"]["conditions"].to_string();
        if found.contains(own) { Err(found) } else { Ok(()) }
    })
    .unwrap();
    assert_eq!(site.conditions_but(own), others, "everything else is the other controller's");
}

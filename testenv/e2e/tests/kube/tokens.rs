use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{Identities, KubeFixture, NAME};

#[test]
fn service_account_token_is_what_it_is_directly() {
    for identities in Identities::ALL {
        let options = (&KubeOptions::default(), &GatewayOptions::default());
        let Some(fixture) = KubeFixture::forwarding(identities, "tokens", options.0, options.1) else { return };
        a_token_is_what_it_is_directly(&fixture);
    }
}

fn a_token_is_what_it_is_directly(fixture: &KubeFixture) {
    let short = json!({"credentialCache": {"tokenTTL": "1s", "rejectedTokenTTL": "1s"}});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", fixture.portcullis(short))).unwrap();
    fixture.admin(&["create", "serviceaccount", "robot"]);
    let token = fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    let whoami = |kubeconfig: portcullis_harness::kubeconfig::Kubeconfig| {
        let mut review = fixture.kube.kubectl(&fixture.written(&kubeconfig)).args(["auth", "whoami"]).json().unwrap();
        review["status"]["userInfo"].take()
    };
    let through = fixture.gateway.kubeconfig(NAME).token(&token);
    let user = whoami(through);
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user, whoami(fixture.kube.kubeconfig().token(&token)), "extras included");

    let forged = fixture.gateway.kubeconfig(NAME).token(&format!("{token}x"));
    let raw = ["get", "--raw", "/api"];
    let refused = fixture.kube.kubectl(&fixture.written(&forged)).args(raw).run().unwrap();
    assert!(refused.stderr.contains("Unauthorized"), "{}", refused.stderr);

    fixture.admin(&["delete", "serviceaccount", "robot"]);
    let status = || {
        let request =
            format!("GET /api HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n");
        (fixture.target().raw_request(request.as_bytes()).ok()?.status == 401).then_some(())
    };
    wait::until("the token of a deleted account is refused", Duration::from_secs(30), status).unwrap();
}

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

/// Whether the servers say that a token is valid for one of these audiences, or for their own if there are none.
fn is_valid_for(fixture: &KubeFixture, token: &str, audiences: &[&str]) -> bool {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences}});
    let path = fixture.run.write("review.json", review.to_string()).unwrap();
    let kubectl = fixture.kube.admin_kubectl().unwrap();
    let answer = kubectl.args(["create", "-o", "json", "-f", path.to_str().unwrap()]).run_ok().unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    answer["status"]["authenticated"] == true
}

/// With the default lifetimes of remembered answers: those for other audiences are not believed.
#[test]
fn token_has_an_audience_that_its_cluster_asks_for() {
    const OWN: &str = "https://kubernetes.default.svc";
    for identities in Identities::ALL {
        let options = (&KubeOptions::default(), &GatewayOptions::default());
        let Some(fixture) = KubeFixture::forwarding(identities, "audiences", options.0, options.1) else { return };
        fixture.admin(&["create", "serviceaccount", "robot"]);
        let token = |audiences: &[&str]| {
            let audiences = audiences.iter().map(|audience| format!("--audience={audience}"));
            let args: Vec<String> =
                ["create", "token", "robot"].map(str::to_owned).into_iter().chain(audiences).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            fixture.admin(&args).trim().to_owned()
        };
        let tokens = [&[][..], &["gateway"], &["gateway", OWN], &["other"]].map(token);
        let forged = [tokens[1].as_str(), "x"].concat();
        let status = |token: &str| {
            let request = format!(
                "GET /api HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
            );
            fixture.target().raw_request(request.as_bytes()).unwrap().status
        };
        let mut seen = Vec::new();
        for audiences in [&[][..], &["gateway"], &["gateway", OWN], &["other"], &[]] {
            let portcullis = fixture.portcullis(json!({"tokens": {"audiences": audiences}}));
            fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", portcullis)).unwrap();
            for token in tokens.iter().map(String::as_str).chain([&*forged]) {
                // A front proxy lets the token go on, and the server has the last word on it.
                let is_passed = identities == Identities::Impersonate || is_valid_for(&fixture, token, &[]);
                let is_valid = is_valid_for(&fixture, token, audiences) && is_passed;
                for _ in 0..2 {
                    assert_eq!(status(token), if is_valid { 200 } else { 401 }, "{identities:?} {audiences:?}");
                }
                seen.push(is_valid);
            }
        }
        let of_gateway = identities == Identities::Impersonate;
        let own = [true, false, true, false, false];
        let expected = [own, [false, of_gateway, true, false, false], [true, of_gateway, true, false, false]].concat();
        assert_eq!(seen[..15], expected, "{identities:?}");
        assert_eq!(seen[15..], [[false, false, false, of_gateway, false], own].concat(), "{identities:?}");
    }
}

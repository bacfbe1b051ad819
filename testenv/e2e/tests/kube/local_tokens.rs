//! Tokens of a real kube-apiserver that the gateway verifies by its keys: whose they are, and how often it is asked.

use std::time::Duration;

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::kube::{KubeOptions, RealKube};
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::fixture::{BareKube, Identities, KubeFixture, NAME};

const ISSUER: &str = "https://kubernetes.default.svc";

pub(crate) fn issuer(jwks: &Value) -> Value {
    json!({"issuers": [{"url": ISSUER, "audiences": [ISSUER], "serviceAccounts": true, "jwks": jwks}]})
}

pub(crate) fn keys(kube: &RealKube) -> String {
    kube.admin_kubectl().unwrap().args(["get", "--raw", "/openid/v1/jwks"]).run_ok().unwrap().trim().to_owned()
}

/// TokenReviews that the servers have answered.
pub(crate) fn reviews(kube: &RealKube) -> u64 {
    let servers = kube.apiservers().iter().map(|server| format!("https://{}", server.address()));
    let page = |server: String| {
        kube.admin_kubectl().unwrap().args(["--server", &server, "get", "--raw", "/metrics"]).run_ok().unwrap()
    };
    let page: String = servers.map(page).collect();
    let lines = page.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let counts = lines.filter(|line| line.contains(r#"resource="tokenreviews""#)).map(|line| {
        let (_, count) = line.rsplit_once(' ').unwrap();
        count.parse::<f64>().unwrap() as u64
    });
    counts.sum()
}

fn apply(fixture: &KubeFixture, tokens: &Value) {
    let portcullis = fixture.portcullis(json!({"tokens": tokens, "credentialCache": {"tokenTTL": "0"}}));
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", portcullis)).unwrap();
}

fn whoami(fixture: &KubeFixture, kubeconfig: portcullis_harness::kubeconfig::Kubeconfig) -> Value {
    let mut review = fixture.kube.kubectl(&fixture.written(&kubeconfig)).args(["auth", "whoami"]).json().unwrap();
    review["status"]["userInfo"].take()
}

/// The user through the gateway, which equals the one that the servers see directly, and the reviews that it took.
fn user_and_reviews(fixture: &KubeFixture, token: &str) -> (Value, u64) {
    let before = reviews(&fixture.kube);
    let through = whoami(fixture, fixture.gateway.kubeconfig(NAME).token(token));
    let asked = reviews(&fixture.kube) - before;
    assert_eq!(through, whoami(fixture, fixture.kube.kubeconfig().token(token)), "extras included");
    (through, asked)
}

/// Tokens of a service account: its own, of a pod on a node, of a Secret.
fn tokens(fixture: &KubeFixture) -> [String; 3] {
    fixture.admin(&["create", "serviceaccount", "robot"]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "robot-1"}, "spec": {
        "serviceAccountName": "robot", "automountServiceAccountToken": false, "nodeName": "n1",
        "containers": [{"name": "c", "image": "none"}]}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s1"}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [node, pod, secret]}).to_string();
    let list = fixture.run.write("bound.json", list).unwrap();
    fixture.admin(&["create", "-f", list.to_str().unwrap()]);
    let token = |bound: &[&str]| fixture.admin(&[&["create", "token", "robot"], bound].concat()).trim().to_owned();
    let bound = |kind: &str, name: &str| {
        token(&[&format!("--bound-object-kind={kind}"), &format!("--bound-object-name={name}")])
    };
    [token(&[]), bound("Pod", "robot-1"), bound("Secret", "s1")]
}

#[test]
fn verified_token_is_who_it_is_directly_without_a_review() {
    for identities in Identities::ALL {
        let options = (&KubeOptions::default(), &GatewayOptions::default());
        let Some(fixture) = KubeFixture::forwarding(identities, "local-tokens", options.0, options.1) else { return };
        let [plain, of_pod, of_secret] = tokens(&fixture);
        assert!(user_and_reviews(&fixture, &plain).1 > 0, "without issuers it is reviewed");

        apply(&fixture, &issuer(&json!({"inline": keys(&fixture.kube)})));
        let (user, asked) = user_and_reviews(&fixture, &plain);
        assert_eq!((&user["username"], asked), (&json!("system:serviceaccount:default:robot"), 0));
        let (user, asked) = user_and_reviews(&fixture, &of_pod);
        let extra = |key: &str| user["extra"][format!("authentication.kubernetes.io/{key}")][0].clone();
        assert_eq!((extra("pod-name"), extra("node-name"), asked), (json!("robot-1"), json!("n1"), 0));
        assert!(user_and_reviews(&fixture, &of_secret).1 > 0, "a Secret may be deleted: the servers are asked");

        // Another key, as after a rotation that the gateway does not know of.
        let other = keys(&fixture.kube).replace(r#""kid":""#, r#""kid":"old-"#);
        apply(&fixture, &issuer(&json!({"inline": other})));
        assert!(user_and_reviews(&fixture, &of_pod).1 > 0, "an unknown key id is no 401");
        // A key of the same id with which the token is not signed.
        let foreign = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","#;
        let id = keys(&fixture.kube);
        let id = id.split(r#""kid":""#).nth(1).unwrap().split('"').next().unwrap().to_owned();
        apply(&fixture, &issuer(&json!({"inline": format!(r#"{{"keys":[{foreign}"kid":"{id}"}}]}}"#)})));
        assert!(user_and_reviews(&fixture, &of_pod).1 > 0, "nor is a signature that does not verify");
    }
}

#[test]
fn servers_show_their_keys_to_the_control_plane() {
    for identities in Identities::ALL {
        let options = (&KubeOptions::default(), &GatewayOptions::default());
        let Some(fixture) = KubeFixture::forwarding(identities, "server-keys", options.0, options.1) else { return };
        let [plain, ..] = tokens(&fixture);
        let portcullis = json!({
            "tokens": issuer(&json!({"fromServers": true})), "credentialCache": {"tokenTTL": "0", "rejectedTokenTTL": "0"},
        });
        let manifest = fixture.manifest().set("/spec/portcullis", fixture.portcullis(portcullis));
        // The right to read them is among those that `portcullis rbac -f` prints.
        let rights = fixture.run.write("object.yaml", manifest.to_text()).unwrap();
        let rbac = fixture.gateway.plane().rbac_of(fixture.reviewer(), &rights).unwrap();
        let rbac = fixture.run.write("rights.yaml", rbac).unwrap();
        fixture.admin(&["apply", "--validate=false", "-f", rbac.to_str().unwrap()]);
        fixture.gateway.apply(&manifest).unwrap();
        let verified = || (user_and_reviews(&fixture, &plain).1 == 0).then_some(());
        wait::until("no review is asked any more", Duration::from_secs(60), verified).unwrap();

        // After the account is deleted an impersonated user is believed to the end, and a token that goes on is not.
        fixture.admin(&["delete", "serviceaccount", "robot"]);
        let status = || {
            let request = format!(
                "GET /api HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nAuthorization: Bearer {plain}\r\n\r\n"
            );
            fixture.target().raw_request(request.as_bytes()).unwrap().status
        };
        // kube-apiserver itself believes its own answer for ten seconds.
        let directly = || {
            let raw = ["get", "--raw", "/api"];
            let kubeconfig = fixture.kube.kubeconfig().token(&plain);
            let refused = fixture.kube.kubectl(&fixture.written(&kubeconfig)).args(raw).run().unwrap();
            refused.stderr.contains("Unauthorized").then_some(())
        };
        wait::until("the server rejects the token", Duration::from_secs(30), directly).unwrap();
        if identities == Identities::Impersonate {
            assert_eq!(status(), 200);
            fixture.gateway.apply(&fixture.manifest()).unwrap();
        }
        assert_eq!(status(), 401, "{identities:?}");
    }
}

#[test]
fn clusters_with_one_issuer_string_share_no_keys() {
    let start = |name: &str| BareKube::start(name, KubeOptions::default());
    let (Some(first), Some(second)) = (start("one-issuer"), start("other-issuer")) else { return };
    let gateway = Gateway::start(&first.run, &GatewayOptions::default()).unwrap();
    let token = |bare: &BareKube| {
        let admin = |args: &[&str]| bare.kube.admin_kubectl().unwrap().args(args).run_ok().unwrap();
        let rbac = bare.run.write("rbac.yaml", gateway.rbac("portcullis").unwrap()).unwrap();
        admin(&["create", "--validate=false", "-f", rbac.to_str().unwrap()]);
        admin(&["create", "serviceaccount", "robot"]);
        admin(&["create", "token", "robot"]).trim().to_owned()
    };
    let tokens = [token(&first), token(&second)];
    let names = ["first.example.com", "second.example.com"];
    for (bare, name) in [&first, &second].into_iter().zip(names) {
        let spec = portcullis_harness::certs::CertSpec::client("portcullis", [""; 0]);
        let identity = bare.kube.client_ca().issue(&spec).unwrap();
        let manifest = Manifest::new(name, bare.kube.apiservers().iter().map(|server| server.address()))
            .upstream(&identity, bare.kube.server_ca(), "kubernetes.default.svc")
            .serving(&gateway.serving_identity(name).unwrap(), bare.kube.client_ca())
            .set("/spec/portcullis", json!({"tokens": issuer(&json!({"inline": keys(&bare.kube)}))}));
        gateway.apply(&manifest).unwrap();
    }
    let answer = |cluster: usize, token: usize| {
        let kubes = [&first.kube, &second.kube];
        let before = reviews(kubes[cluster]);
        let (name, token) = (names[cluster], &tokens[token]);
        let request =
            format!("GET /api HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n");
        let status = gateway.target(name).raw_request(request.as_bytes()).unwrap().status;
        (status, reviews(kubes[cluster]) - before)
    };
    for cluster in [0, 1] {
        assert_eq!(answer(cluster, cluster), (200, 0));
        assert_eq!(answer(cluster, 1 - cluster), (401, 1), "the other's token is reviewed, and rejected");
    }
}

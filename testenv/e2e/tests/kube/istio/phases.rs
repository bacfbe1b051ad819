//! Single phases of the filter in one gateway of Istio's, each for a cluster of its own: request info alone, policies alone,
//! identity alone. With the module.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_e2e::render_istio;
use portcullis_harness::client::{H2Client, Response};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::effect::{eventually, nothing_was_refused, virtual_host};
use super::fixture::{Build, IDENTITY, MeshFixture, NAME, POLICY, Setup, object};
use super::users::nothing_said_changes_it;

const SOON: Duration = Duration::from_secs(30);
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const ALL: &str = r#"[{"group": "all", "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]}]}]"#;
const FIRST_ROUTE: &str = "  - name: kube\n";
/// One more in the user's VirtualService.
const OWN_ROUTE: &str = "  - name: version
    match: [{uri: {exact: /version}}]
    headers: {response: {set: {x-own: own}}}
    route: [{destination: {host: prod-example-com.kube-apiserver.internal, port: {number: 443}}}]
";
/// The access log of the README, in addition to the mesh's configuration.
const TELEMETRY: &str = "---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: portcullis-requests, namespace: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  accessLogging: [{providers: [{name: portcullis-requests}]}]
";

/// All three in one gateway, because a start of istiod and a kube-apiserver is what takes time.
fn objects(servers: &[SocketAddr], pki: &Path) -> String {
    let render = |phase: &str, name: &str, pki: &Path| render_istio(phase, name, servers, pki, &[]).unwrap();
    let identity = render("module", IDENTITY, pki);
    assert!(identity.contains(ALL), "{identity}");
    let identity = identity.replace(ALL, r#""All""#);
    let request_info = render("request-info", NAME, &without_credentials(pki));
    assert!(request_info.contains(FIRST_ROUTE), "{request_info}");
    let request_info = request_info.replace(FIRST_ROUTE, &format!("{OWN_ROUTE}{FIRST_ROUTE}"));
    request_info + &render("policy", POLICY, pki) + &identity + TELEMETRY
}

/// A folder of one's own with all that `render` asks for.
fn without_credentials(kubeadm: &Path) -> PathBuf {
    let folder = kubeadm.with_file_name("pki-without-credentials");
    std::fs::create_dir(&folder).unwrap();
    for (from, to) in
        [("apiserver.crt", "serving.crt"), ("apiserver.key", "serving.key"), ("ca.crt", "upstream-ca.crt")]
    {
        std::fs::copy(kubeadm.join(from), folder.join(to)).unwrap();
    }
    folder
}

#[test]
fn single_phases_work_in_a_gateway_of_istios() {
    let Some(fixture) = MeshFixture::with("istio-phases", &Setup::new(Build::Module), objects) else { return };
    fixture.admin(&[
        "create",
        "clusterrole",
        "acts-as-dave",
        "--verb=impersonate",
        "--resource=users",
        "--resource-name=dave",
    ]);
    let robot = "--serviceaccount=default:robot";
    fixture.admin(&["create", "clusterrolebinding", "acts-as-dave", "--clusterrole=acts-as-dave", robot]);
    fixture.kube.run_pod("pod").unwrap();
    assert_eq!(fixture.mesh.objections(fixture.mesh.objects()).unwrap(), Vec::<String>::new());
    nothing_was_refused(&fixture.mesh);
    no_way_shows_a_certificate(&fixture);
    for name in [NAME, POLICY] {
        who_has_a_token_is_who_they_are_directly(&fixture, name);
        exec_works(&fixture, name);
    }
    routes_and_logs_go_by_what_a_request_asks_for(&fixture);
    policies_refuse(&fixture);
    nobody_shares_a_connection_that_a_rejected_token_closes(&fixture);
    identity_is_forwarded(&fixture);
    nothing_was_refused(&fixture.mesh);
    no_route_leads_around_the_filter(&fixture);
}

/// The gateway has nothing that could be believed in the place of a client.
fn no_way_shows_a_certificate(fixture: &MeshFixture) {
    for (name, of_gateway) in [(NAME, false), (POLICY, false), (IDENTITY, true)] {
        let name = object(name);
        let secret =
            fixture.admin(&["-n", "istio-ingress", "get", "secret", &format!("{name}-upstream"), "-o", "json"]);
        assert_eq!(secret.contains("tls.key"), of_gateway, "{name}");
        let clusters = fixture.mesh.gateway().admin().json("/config_dump?resource=dynamic_active_clusters").unwrap();
        let of_name = |cluster: &&Value| {
            cluster["cluster"]["name"]
                .as_str()
                .is_some_and(|it| it.ends_with(&format!("|{name}.kube-apiserver.internal")))
        };
        let clusters: Vec<_> = clusters["configs"].as_array().unwrap().iter().filter(of_name).collect();
        assert!(!clusters.is_empty(), "{name}");
        let shows = |cluster: &&&Value| cluster.to_string().contains("tls_certificate");
        assert_eq!(clusters.iter().any(|cluster| shows(&cluster)), of_gateway, "{name}: {clusters:#?}");
    }
}

/// Tokens, no credential, `--as`: the credentials that a client may have, and those that it may not.
fn who_has_a_token_is_who_they_are_directly(fixture: &MeshFixture, name: &str) {
    let (direct, through) = (fixture.direct(), fixture.target_of(name));
    let token = format!("Bearer {}", fixture.token);
    for (case, credential) in [
        ("token", &[("authorization", token.as_bytes())][..]),
        ("nobody", &[]),
        ("rejected", &[("authorization", b"Bearer unheard-of")]),
    ] {
        nothing_said_changes_it(&format!("{name}, {case}"), credential, &direct, &through);
    }
    // A certificate ends at the gateway, whosever it is.
    let administrator = through.clone().identity(fixture.kube.admin());
    nothing_said_changes_it(&format!("{name}, certificate"), &[], &direct, &administrator);

    let whoami = |kubeconfig: &Kubeconfig, more: &[&str]| -> Value {
        let kubectl = fixture.kubectl(&kubeconfig.clone().token(&fixture.token));
        kubectl.args(["auth", "whoami"]).args(more).json().unwrap()["status"]["userInfo"].take()
    };
    for (more, user) in [(&[][..], "system:serviceaccount:default:robot"), (&["--as", "dave"], "dave")] {
        let direct = whoami(&fixture.kube.kubeconfig(), more);
        assert_eq!(direct["username"], user);
        assert_eq!(whoami(&fixture.kubeconfig_of(name), more), direct, "{name}");
    }
}

fn exec_works(fixture: &MeshFixture, name: &str) {
    for websockets in ["true", "false"] {
        let kubectl = fixture.kubectl(&fixture.kubeconfig_of(name).token(&fixture.token));
        let kubectl = kubectl.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
        let output = kubectl.args(["exec", "pod", "--", "sh", "-c", "exit 7"]).run().unwrap();
        assert_eq!(output.status.code(), Some(7), "{name}, WebSockets {websockets}: {output:?}");
    }
}

/// As robot.
fn ask(fixture: &MeshFixture, name: &str, method: &str, path: &str, more: &[(&str, &str)]) -> Response {
    let token = format!("Bearer {}", fixture.token);
    let headers: Vec<_> =
        [("authorization", token.as_str())].iter().chain(more).map(|(name, value)| (*name, value.as_bytes())).collect();
    H2Client::connect(&fixture.target_of(name)).unwrap().request(method, path, &headers, b"").unwrap()
}

fn routes_and_logs_go_by_what_a_request_asks_for(fixture: &MeshFixture) {
    let host = virtual_host(&fixture.mesh, NAME);
    let names: Vec<_> =
        host["routes"].as_array().unwrap().iter().map(|route| route["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["no-deletecollection", "long", "version", "kube", "undecided"], "{host:#}");
    let kube = &host["routes"][3]["route"];
    assert_eq!(
        (&kube["timeout"], &kube["retry_policy"]["retry_on"]),
        (&json!("75s"), &json!("connect-failure,refused-stream"))
    );
    let forged =
        [("portcullis.request.verb", "get"), ("x-portcullis-request-verb", "get"), ("x-http-method-override", "GET")];
    let agent = |name: &'static str| [&forged[..], &[("user-agent", name)]].concat();

    let answer = ask(fixture, NAME, "GET", "/version", &[]);
    assert_eq!((answer.status, answer.header("x-own").as_deref()), (200, Some("own")), "{}", answer.text());
    let answer = ask(fixture, NAME, "DELETE", CONFIGMAPS, &agent("deletes"));
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(answer.json().unwrap()["message"], "collections are not deleted through this gateway");
    assert_eq!(ask(fixture, NAME, "GET", CONFIGMAPS, &agent("lists")).status, 200);
    let watch = format!("{CONFIGMAPS}?watch=1&timeoutSeconds=1");
    assert_eq!(ask(fixture, NAME, "GET", &watch, &agent("watches")).status, 200);
    for (agent, route, verb) in [
        ("deletes", "no-deletecollection", "deletecollection"),
        ("lists", "kube", "list"),
        ("watches", "long", "watch"),
    ] {
        let line = line(fixture, agent);
        let expected = json!([route, verb, verb, "configmaps"]);
        assert_eq!(json!([line["route"], line["verb"], line["metadata"], line["resource"]]), expected, "{line}");
    }
}

/// Of the access log.
fn line(fixture: &MeshFixture, agent: &str) -> Value {
    let find = || {
        let text = fixture.mesh.gateway().process().stdout();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["agent"] == agent)
    };
    wait::until(&format!("a line of {agent}"), SOON, find).unwrap()
}

fn policies_refuse(fixture: &MeshFixture) {
    assert_eq!(ask(fixture, POLICY, "GET", CONFIGMAPS, &[]).status, 200);
    let answer = ask(fixture, POLICY, "DELETE", CONFIGMAPS, &[("x-remote-group", "system:masters")]);
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(answer.json().unwrap()["message"], "no dispatch policy of the gateway matches this request");
}

/// Of certificates, too; and nothing is forbidden.
fn identity_is_forwarded(fixture: &MeshFixture) {
    let (direct, through) = (fixture.direct(), fixture.target_of(IDENTITY));
    nothing_said_changes_it(
        "identity, certificate",
        &[],
        &direct.clone().identity(&fixture.alice),
        &through.clone().identity(&fixture.alice),
    );
    nothing_said_changes_it("identity, nobody", &[], &direct, &through);
    let answer = ask(fixture, IDENTITY, "DELETE", CONFIGMAPS, &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn nobody_shares_a_connection_that_a_rejected_token_closes(fixture: &MeshFixture) {
    for name in [NAME, POLICY].map(object) {
        let count = |version: &str| -> u64 {
            let filter = format!("outbound.443..{name}.kube.*upstream_cx_{version}_total");
            fixture.mesh.gateway().admin().stats(&filter).unwrap().iter().map(|(_, count)| count).sum()
        };
        assert!(count("http1") > 0 && count("http2") == 0, "{name}: {}, {}", count("http1"), count("http2"));
    }
}

/// Takes the filter out, and leaves the user's VirtualService.
fn no_route_leads_around_the_filter(fixture: &MeshFixture) {
    let patch = r#"[{"op":"test","path":"/spec/configPatches/0/applyTo","value":"HTTP_FILTER"},{"op":"remove","path":"/spec/configPatches/0"}]"#;
    for name in [NAME, POLICY] {
        let filter = format!("envoyfilter/{}-portcullis", object(name));
        fixture.admin(&["-n", "istio-ingress", "patch", &filter, "--type=json", "-p", patch]);
        eventually("nobody gets in", || {
            let answer = ask(fixture, name, "GET", CONFIGMAPS, &[]);
            let is_ours = answer.text().contains("the gateway made no decision about this request");
            (answer.status == 503 && is_ours).then_some(()).ok_or_else(|| answer.text())
        });
    }
    assert_eq!(ask(fixture, NAME, "GET", "/version", &[]).status, 503, "by no route of the user's own");
}

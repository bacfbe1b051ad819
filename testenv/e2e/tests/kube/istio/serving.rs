//! From the README of `envoy/istio` to kubectl at work, with the module and with wasm.

use std::time::Duration;

use portcullis_harness::client::{H2Client, Response};
use portcullis_harness::kubeconfig::Kubeconfig;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::addresses::no_forged_address_is_listed;
use super::effect::{connections, eventually, manager, nothing_was_refused, virtual_host};
use super::fixture::{Build, MeshFixture, NAME, Setup, object};
use super::tenants::OtherTenant;
use super::users::everybody_is_who_they_are;

const SOON: Duration = Duration::from_secs(30);
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn gateway_of_istios_serves_with_the_module() {
    serves("istio-module", &Setup::new(Build::Module));
}

#[test]
fn gateway_of_istios_serves_with_wasm() {
    serves("istio-wasm", &Setup::new(Build::Wasm));
}

#[test]
#[ignore = "the same behind each older Envoy"]
fn gateways_of_istios_serve_with_older_envoys() {
    for version in deps::envoy_compat_versions() {
        let has_wasm = !deps::pinned("ENVOY_WITHOUT_V8").is_some_and(|all| all.split(' ').any(|one| one == version));
        for build in [Build::Module, Build::Wasm].into_iter().filter(|build| *build == Build::Module || has_wasm) {
            serves("istio-older", &Setup { version: Some(version.clone()), ..Setup::new(build) });
        }
    }
}

#[test]
fn users_can_be_told_by_impersonation_as_well() {
    let setup = Setup { impersonates: true, ..Setup::new(Build::Module) };
    let Some(fixture) = MeshFixture::start("istio-impersonate", &setup) else { return };
    nothing_was_refused(&fixture.mesh);
    whoami_shows_what_a_direct_request_shows(&fixture);
    everybody_is_who_they_are(&fixture, &fixture.target());
    a_watch_sees_what_happens(&fixture);
    sessions_work(&fixture);
}

fn serves(test: &str, setup: &Setup) {
    let Some(fixture) = MeshFixture::start(test, setup) else { return };
    assert_eq!(fixture.mesh.objections(fixture.mesh.objects()).unwrap(), Vec::<String>::new());
    nothing_was_refused(&fixture.mesh);
    nothing_is_lost(&fixture);
    whoami_shows_what_a_direct_request_shows(&fixture);
    everybody_is_who_they_are(&fixture, &fixture.target());
    no_forged_address_is_listed(&fixture);
    everybody_has_a_way_of_their_own(&fixture);
    a_watch_sees_what_happens(&fixture);
    sessions_work(&fixture);
    the_path_arrives_as_it_was_written(&fixture);
    connection_for_one_name_takes_no_request_for_another(&fixture);
    a_resumed_session_is_still_alices(&fixture);
    what_envoy_itself_answers_is_a_status(&fixture);
    nothing_was_refused(&fixture.mesh);
    // With wasm no other object has a host there.
    if setup.build == Build::Module {
        nobody_else_gets_to_the_servers(&fixture);
    }
    without_the_filter_nobody_gets_in(&fixture, setup.build);
    a_renewed_certificate_is_shown(&fixture);
}

/// Not by a host of one's own on the same pods, nor by the cluster's.
fn nobody_else_gets_to_the_servers(fixture: &MeshFixture) {
    let routes = || virtual_host(&fixture.mesh, NAME)["routes"].clone();
    let (before, object) = (routes(), object(NAME));
    let other_tenant = OtherTenant {
        mesh: &fixture.mesh,
        address: fixture.target().address(),
        label: "istio: ingressgateway",
        gateway: &format!("istio-ingress/{object}"),
        hosts: &format!("shop.example.com, {NAME}"),
        service: &format!("{object}.kube-apiserver.internal"),
        kube: &fixture.kube,
        server: fixture.direct(),
        owner: "istio-ingress",
        secrets: &[&format!("{object}-serving"), &format!("{object}-upstream")],
        policy: &format!("{object}.istio-ingress"),
    };
    let apply = |file: &str, objects: &str| fixture.apply(file, objects);
    other_tenant.nobody_else_routes_to_the_servers(apply);
    other_tenant.nobody_else_names_the_secrets(apply);
    assert!(routes() == before, "the cluster's own routes");
    let alice = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
    assert_eq!(alice.get(CONFIGMAPS, &[]).unwrap().status, 200);
}

/// The features that the README of `envoy/` asks to keep, as far as no request of this test shows them.
fn nothing_is_lost(fixture: &MeshFixture) {
    let manager = manager(&fixture.mesh, NAME);
    assert_eq!(manager["stream_idle_timeout"], "300s");
    assert_ne!(manager["normalize_path"], json!(true));
    assert_ne!(manager["merge_slashes"], json!(true));
    assert!(
        manager["path_with_escaped_slashes_action"].is_null()
            || manager["path_with_escaped_slashes_action"] == "KEEP_UNCHANGED"
    );
    assert_eq!(manager["use_remote_address"], true);
    let early = manager["early_header_mutation_extensions"].to_string();
    assert!(early.contains("x-remote-"), "{early}");
    assert_eq!(manager["forward_client_cert_details"], "SANITIZE_SET");
    assert_eq!(manager["set_current_client_cert_details"]["chain"], true);
    let host = virtual_host(&fixture.mesh, NAME);
    let routes = host["routes"].as_array().unwrap();
    let (last, opened) = routes.split_last().unwrap();
    assert_eq!(last["direct_response"]["status"], 503, "{last:#}");
    assert_eq!(opened.len(), 13, "{host:#}");
    for route in opened {
        assert!(route["match"]["filter_state"].is_array(), "only the filter opens it: {route:#}");
        let is_long = route["name"].as_str().is_some_and(|name| !name.ends_with("-read") && !name.ends_with("-write"));
        let (timeout, idle) = (&route["route"]["timeout"], &route["route"]["idle_timeout"]);
        assert_eq!(timeout == "0s" && idle == "0s", is_long, "{route:#}");
    }
}

fn credentials(fixture: &MeshFixture) -> [(&'static str, Kubeconfig, Kubeconfig); 2] {
    let both = |credential: &dyn Fn(Kubeconfig) -> Kubeconfig| {
        (credential(fixture.kube.kubeconfig()), credential(fixture.kubeconfig()))
    };
    let alice = both(&|config| config.identity(&fixture.alice));
    let robot = both(&|config| config.token(&fixture.token));
    [("alice", alice.0, alice.1), ("robot", robot.0, robot.1)]
}

fn whoami_shows_what_a_direct_request_shows(fixture: &MeshFixture) {
    let whoami = |kubeconfig: &Kubeconfig| -> Value {
        fixture.kubectl(kubeconfig).args(["auth", "whoami"]).json().unwrap()["status"]["userInfo"].take()
    };
    for (name, direct, through) in credentials(fixture) {
        let direct = whoami(&direct);
        assert!(direct["username"].as_str().unwrap().ends_with(name));
        assert_eq!(whoami(&through), direct, "{name}");
    }
}

/// kube-apiserver closes an HTTP/2 connection on which it rejected a client, and takes upgrades over HTTP/1.1 only.
fn everybody_has_a_way_of_their_own(fixture: &MeshFixture) {
    let by_subset = ["h2", "passthrough", "anonymous", "upgrade"].map(|subset| connections(&fixture.mesh, subset));
    let [h2, passthrough, anonymous, upgrade] = by_subset;
    assert!(h2.0 == 0 && h2.1 > 0, "{h2:?}");
    assert!(passthrough.0 == 0 && passthrough.1 > 0, "{passthrough:?}");
    assert!(anonymous.0 > 0 && anonymous.1 == 0, "{anonymous:?}");
    assert_eq!(upgrade, (0, 0));
}

fn a_watch_sees_what_happens(fixture: &MeshFixture) {
    for (name, _, through) in credentials(fixture) {
        let watch = fixture.kubectl(&through).args(["get", "configmaps", "-w", "-o", "name"]).spawn().unwrap();
        let map = format!("seen-by-{name}");
        fixture.kubectl(&through).args(["create", "configmap", &map]).run_ok().unwrap();
        let sees = || watch.stdout().contains(&map).then_some(());
        wait::until("the watch sees it", SOON, sees).unwrap();
    }
}

fn sessions_work(fixture: &MeshFixture) {
    fixture.kube.run_pod("pod").unwrap();
    for (name, _, through) in credentials(fixture) {
        for websockets in ["true", "false"] {
            let kubectl = fixture.kubectl(&through).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
            let script = "cat; echo to-err >&2; exit 7";
            let output = kubectl.args(["exec", "-i", "pod", "--", "sh", "-c", script]).run().unwrap();
            assert_eq!(output.status.code(), Some(7), "{name}, WebSockets {websockets}: {output:?}");
            assert!(output.stderr.contains("to-err"), "{name}, WebSockets {websockets}: {output:?}");
        }
    }
    let (http1, http2) = connections(&fixture.mesh, "upgrade");
    assert!(http1 > 0 && http2 == 0, "{http1}, {http2}");
}

fn the_path_arrives_as_it_was_written(fixture: &MeshFixture) {
    let path = "/api/v1/namespaces/default/services/web/proxy/a%2Fb//c/..%2f%41/./d";
    let client = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
    client.get(path, &[]).unwrap();
    let arrived = |event: &Value| event["requestURI"] == path;
    fixture.kube.apiservers()[0].wait_audit("the same path", SOON, arrived).unwrap();
}

fn connection_for_one_name_takes_no_request_for_another(fixture: &MeshFixture) {
    let alice = fixture.target().identity(&fixture.alice);
    for name in ["other.example.com", "prod.example.com.evil.com"] {
        let answer = H2Client::connect(&alice).unwrap().authority(name).get(CONFIGMAPS, &[]).unwrap();
        assert_eq!(answer.status, 421, "{name}: {}", answer.text());
        assert_eq!(answer.json().unwrap()["kind"], "Status", "{name}");
    }
    for name in ["prod.example.com:443", "PROD.example.com", "prod.example.com.", "10.0.0.1:443"] {
        let answer = H2Client::connect(&alice).unwrap().authority(name).get(CONFIGMAPS, &[]).unwrap();
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    }
    assert!(fixture.target().sni("other.example.com").connect().is_err());
}

/// Istio lets clients resume sessions: only the filter verifies the certificate then.
fn a_resumed_session_is_still_alices(fixture: &MeshFixture) {
    let target = fixture.target().identity(&fixture.alice).resuming().unwrap();
    let request = format!("GET {CONFIGMAPS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let ask = || {
        let mut connection = target.connect().unwrap();
        connection.write(request.as_bytes()).unwrap();
        (connection.read_response(false).unwrap().status, connection.is_resumed())
    };
    assert_eq!(ask(), (200, false));
    assert_eq!(ask(), (200, true));
}

fn what_envoy_itself_answers_is_a_status(fixture: &MeshFixture) {
    let many: String = (0..200).map(|number| format!("X-Header-{number}: x\r\n")).collect();
    let request = format!("GET {CONFIGMAPS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{many}\r\n");
    let answer = fixture.target().identity(&fixture.alice).raw_request(request.as_bytes()).unwrap();
    assert!((400..500).contains(&answer.status), "{}", answer.text());
    assert_eq!(answer.json().unwrap()["kind"], "Status", "{}", answer.text());
}

/// istiod hands the new Secret out, and connections from before go on.
fn a_renewed_certificate_is_shown(fixture: &MeshFixture) {
    let open = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
    let renewed = fixture.renew().identity(&fixture.alice);
    eventually("the new certificate is shown", || {
        H2Client::connect(&renewed).map(drop).map_err(|error| error.to_string())
    });
    assert_eq!(open.get(CONFIGMAPS, &[]).unwrap().status, 503, "still open, and still without the filter");
}

/// Takes the filter out, and leaves what its decisions would open.
fn without_the_filter_nobody_gets_in(fixture: &MeshFixture, build: Build) {
    match build {
        Build::Wasm => drop(fixture.admin(&["-n", "istio-ingress", "delete", "wasmplugin", "portcullis"])),
        Build::Module => {
            let patch = r#"[{"op":"test","path":"/spec/configPatches/0/applyTo","value":"HTTP_FILTER"},{"op":"remove","path":"/spec/configPatches/0"}]"#;
            let name = format!("envoyfilter/{}-portcullis", object(NAME));
            fixture.admin(&["-n", "istio-ingress", "patch", &name, "--type=json", "-p", patch]);
        }
    }
    let forged = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
    let alice = fixture.target().identity(&fixture.alice);
    let ask = || -> Option<Response> { H2Client::connect(&alice).ok()?.get("/api/v1/secrets", &forged).ok() };
    eventually("nobody gets in", || match ask() {
        Some(answer) if answer.status == 503 => {
            let body = answer.json().map_err(|error| error.to_string())?;
            let is_ours = body["message"] == "the gateway made no decision about this request";
            is_ours.then_some(()).ok_or_else(|| body.to_string())
        }
        // As alice, who may not.
        Some(answer) if answer.status == 403 => Err(answer.text()),
        other => panic!("{other:?}"),
    });
    let with_token = [("authorization", format!("Bearer {}", fixture.token))];
    let headers: Vec<_> = with_token.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = H2Client::connect(&fixture.target()).unwrap().get(CONFIGMAPS, &headers).unwrap();
    assert_eq!(answer.status, 503, "{}", answer.text());
}

//! The console's login, judged by a real kube-apiserver: its tokens, its rights, its absence.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::client::{Response, TlsTarget, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::process::Signal;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use crate::sources::{SOON, SourceFixture};

pub(crate) const TENANT: &str = "tenant.example.com";
pub(crate) const OTHER: &str = "other.example.com";
/// The namespace of the readers' service accounts.
pub(crate) const READERS: &str = "readers";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A control plane whose pages need a login, and a Kubernetes with two clusters and readers: `tenant`, who may get one of them,
/// `operator`, who may list all, and `nobody`.
pub(crate) struct Readers {
    pub(crate) plane: ControlPlane,
    pub(crate) fixture: SourceFixture,
}

impl Readers {
    pub(crate) fn start(test: &str, more: &[&str]) -> Option<Self> {
        let fixture = SourceFixture::start(test)?;
        fixture.admin(&["create", "namespace", READERS]);
        for name in [TENANT, OTHER] {
            fixture.apply(&fixture.manifest(name).to_text());
        }
        for name in ["tenant", "operator", "nobody"] {
            fixture.admin(&["create", "serviceaccount", name, "-n", READERS]);
        }
        let account = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": READERS});
        let user = |name: &str| json!({"kind": "User", "apiGroup": RBAC, "name": name});
        let get = json!({"verbs": ["get"], "resourceNames": [TENANT]});
        grant(&fixture, "console-tenant", &get, &[account("tenant"), user("carol")]);
        grant(&fixture, "console-operator", &json!({"verbs": ["get", "list"]}), &[account("operator")]);
        let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let plane = ControlPlane::start_behind_login(&fixture.run.make_dir("plane").unwrap(), &flags).unwrap();
        let readers = Readers { plane, fixture };
        let token = readers.token("operator");
        wait::until_ok("both clusters are known", SOON, || {
            let fleet = readers.ask(&token, "/ui/api/fleet").text();
            if fleet.contains(TENANT) && fleet.contains(OTHER) { Ok(()) } else { Err(fleet) }
        })
        .unwrap();
        Some(readers)
    }

    /// A new token of a service account.
    pub(crate) fn token(&self, account: &str) -> String {
        self.fixture.admin(&["create", "token", account, "-n", READERS]).trim().to_owned()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.plane.http_address()
    }

    fn ask(&self, token: &str, path: &str) -> Response {
        let bearer = format!("Bearer {token}");
        plain::request(self.address(), "GET", path, &[("authorization", &bearer)], b"").unwrap()
    }

    fn status(&self, token: &str, path: &str) -> u16 {
        self.ask(token, path).status
    }

    /// Posts a token as a browser does.
    fn log_in(&self, token: &str) -> Response {
        let origin = format!("http://{}", self.address());
        let headers = [("origin", origin.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        let body = format!("token={token}&to=%2Fui%2F");
        plain::request(self.address(), "POST", "/ui/login", &headers, body.as_bytes()).unwrap()
    }

    /// The status of a page for a session.
    fn session_status(&self, cookie: &str, path: &str) -> u16 {
        plain::request(self.address(), "GET", path, &[("cookie", cookie)], b"").unwrap().status
    }

    /// Waits until the session has ended, and returns how long that took.
    fn wait_end(&self, cookie: &str) -> Duration {
        let begin = Instant::now();
        wait::until_ok("the session ends", SOON, || match self.session_status(cookie, "/ui/") {
            401 => Ok(begin.elapsed()),
            other => Err(other.to_string()),
        })
        .unwrap()
    }
}

fn grant(fixture: &SourceFixture, name: &str, rule: &Value, subjects: &[Value]) {
    let mut rule = rule.clone();
    rule["apiGroups"] = json!(["proxy.kubegateway.io"]);
    rule["resources"] = json!(["upstreamclusters"]);
    let version = format!("{RBAC}/v1");
    let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]});
    let binding = json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}, "subjects": subjects});
    fixture.apply(&format!("{role}\n---\n{binding}\n"));
}

fn cookie(begun: &Response) -> String {
    let set = begun.header("set-cookie").unwrap();
    set.split(';').next().unwrap().to_owned()
}

#[test]
fn tokens_show_their_own_objects_and_no_others() {
    let Some(readers) = Readers::start("console-tokens", &[]) else { return };
    let [tenant, operator, nobody] = ["tenant", "operator", "nobody"].map(|name| readers.token(name));
    let clusters = |token: &str| {
        let fleet = readers.ask(token, "/ui/api/fleet").json().unwrap();
        let clusters = fleet["clusters"].as_array().unwrap().clone();
        clusters.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(clusters(&tenant), [TENANT]);
    assert_eq!(clusters(&nobody), [""; 0]);
    assert_eq!(clusters(&operator).len(), 2);
    let path = |name: &str| format!("/ui/clusters/{name}");
    let of = |token: &str| [path(TENANT), path(OTHER), "/status".to_owned()].map(|path| readers.status(token, &path));
    assert_eq!(of(&tenant), [200, 403, 403]);
    assert_eq!(of(&nobody), [403, 403, 403]);
    assert_eq!(of(&operator), [200, 200, 200]);
    let page = readers.ask(&tenant, "/ui/").text();
    assert!(page.contains(TENANT) && !page.contains(OTHER) && !page.contains("GatewaySettings"), "{page}");
    for wrong in ["wrong", &format!("{tenant}x"), "e30.eyJleHAiOjF9.x"] {
        assert_eq!(readers.status(wrong, "/ui/api/fleet"), 401, "{wrong}");
    }
    for path in ["/ui/", "/status", "/ui/api/fleet"] {
        assert_eq!(plain::get(readers.address(), path).unwrap().status, 401, "{path}");
    }
    prints_status(&readers, &operator);
    assert!(!readers.plane.process().log().contains(&tenant), "no token is logged");
}

/// `portcullis status` logs in by a token.
fn prints_status(readers: &Readers, token: &str) {
    let file = readers.fixture.run.join("token");
    portcullis_harness::write_private(&file, token.as_bytes()).unwrap();
    let address = readers.address().to_string();
    let run = |more: &[&str]| {
        let mut command = Command::new(deps::portcullis().unwrap());
        let output = command.args(["status", "--address", &address]).args(more).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    assert!(run(&[]).contains("wants a login"), "{}", run(&[]));
    let table = run(&["--token-file", file.to_str().unwrap()]);
    assert!(table.contains(TENANT) && table.contains(OTHER), "{table}");
}

#[test]
fn session_ends_with_its_token_its_rights_and_the_api() {
    let Some(readers) = Readers::start("console-session", &["--http-review-interval", "2s"]) else { return };
    let begun = readers.log_in(&readers.token("tenant"));
    assert_eq!((begun.status, begun.header("location").as_deref()), (303, Some("/ui/")));
    let session = cookie(&begun);
    let status = |path: &str| readers.session_status(&session, path);
    assert_eq!((status(&format!("/ui/clusters/{TENANT}")), status(&format!("/ui/clusters/{OTHER}"))), (200, 403));
    assert_eq!(readers.log_in("wrong").status, 401);
    // A right that is taken away.
    readers.fixture.admin(&["delete", "clusterrolebinding", "console-tenant"]);
    wait::until("the right is gone", SOON, || (status(&format!("/ui/clusters/{TENANT}")) == 403).then_some(()))
        .unwrap();
    assert_eq!(status("/ui/"), 200, "the login is still good");
    // A token that is revoked, with its account.
    readers.fixture.admin(&["delete", "serviceaccount", "tenant", "-n", READERS]);
    println!("revoked: the session ended after {:.1} s", readers.wait_end(&session).as_secs_f64());
    // An API that does not answer.
    let operator = readers.token("operator");
    let session = cookie(&readers.log_in(&operator));
    assert_eq!(readers.session_status(&session, "/status"), 200);
    let api = readers.fixture.kube.apiserver(0).unwrap().process();
    api.signal(Signal::Stop).unwrap();
    println!("API away: the session ended after {:.1} s", readers.wait_end(&session).as_secs_f64());
    assert_eq!(readers.log_in(&operator).status, 503);
    assert_eq!(readers.status(&operator, "/ui/api/fleet"), 503);
    api.signal(Signal::Cont).unwrap();
    wait::until("the API is back", SOON, || (readers.log_in(&operator).status == 303).then_some(())).unwrap();
}

#[test]
fn client_certificates_have_the_rights_of_their_users() {
    let files = RunDir::new("console-tls-files").unwrap();
    let [ca, users] = ["console", "console users"].map(|name| Ca::new(name).unwrap());
    let serving = ca.issue(&CertSpec::server("console", ["console.example.com"])).unwrap();
    let file = |name: &str| files.join(name);
    serving.write_pem(&file("console.crt"), &file("console.key")).unwrap();
    users.write_pem(&file("users.crt")).unwrap();
    let paths = ["console.crt", "console.key"].map(|name| file(name).display().to_string());
    let client_ca = file("users.crt").display().to_string();
    let flags = ["--http-tls-cert", &paths[0], "--http-tls-key", &paths[1], "--http-client-ca", &client_ca];
    let Some(readers) = Readers::start("console-tls", &flags) else { return };
    let address = readers.address();
    let target = TlsTarget::new(address).sni("console.example.com").trust(&ca).alpn(&["http/1.1"]);
    let ask = |target: &TlsTarget, path: &str, more: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n");
        target.raw_request(request.as_bytes()).unwrap().status
    };
    let of = |name: &str| target.clone().identity(&users.issue(&CertSpec::client(name, [""; 0])).unwrap());
    let cluster = |name: &str| format!("/ui/clusters/{name}");
    assert_eq!((ask(&of("carol"), &cluster(TENANT), ""), ask(&of("carol"), &cluster(OTHER), "")), (200, 403));
    assert_eq!((ask(&of("dave"), &cluster(TENANT), ""), ask(&of("carol"), "/status", "")), (403, 403));
    assert_eq!(ask(&of("carol"), &cluster(TENANT), "Authorization: Bearer wrong\r\n"), 401, "never downgraded");
    let operator = format!("Authorization: Bearer {}\r\n", readers.token("operator"));
    assert_eq!(ask(&target, "/status", &operator), 200, "a token over TLS");
    assert_eq!(ask(&target, "/ui/", ""), 401);
    assert_eq!(plain::get(address, "/healthz").unwrap().status, 200, "probes need no TLS");
}

//! The program as an operator meets it.

#![cfg(test)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(20);

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_clear();
    command
}

fn output(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn write(directory: &Path, file: &str, text: &str) {
    let hidden = directory.join(format!(".{file}"));
    std::fs::write(&hidden, text).unwrap();
    std::fs::rename(hidden, directory.join(file)).unwrap();
}

const SETTINGS: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: gateway}\n";
const BAD: &str = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

/// A running `portcullis serve`; killed if the test ends before it does.
struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended already in a test that passes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(config: &Path, socket: &Path) -> Self {
        let mut child = program()
            .args(["serve", "--http-address", "127.0.0.1:0"])
            .arg("--config")
            .arg(config)
            .arg("--xds-socket")
            .arg(socket)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().unwrap().contains("http_address=")).unwrap().unwrap();
        let address = line.split("http_address=").nth(1).unwrap().to_owned();
        // Drained, so that the program never waits for us.
        std::thread::spawn(move || lines.count());
        Self { child, address }
    }

    fn get(&self, path: &str) -> (String, String) {
        let (code, _, body) = self.ask("GET", path, "localhost");
        (code, body)
    }

    /// The code, the headers and the body.
    fn ask(&self, method: &str, path: &str, host: &str) -> (String, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), head.to_ascii_lowercase(), body.to_owned())
    }

    fn status_when(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let status = serde_json::from_str(&self.get("/status").1).unwrap();
            if wanted(&status) {
                return status;
            }
            assert!(start.elapsed() < DEADLINE, "{status}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn serve_tells_where_it_stands_follows_changes_and_ends_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    let socket = dir.path().join("xds.sock");
    std::fs::create_dir(&config).unwrap();
    write(&config, "settings.yaml", &format!("{SETTINGS}spec: {{instance: Not A Label}}\n"));
    let mut served = Served::start(&config, &socket);
    assert_eq!(served.get("/healthz").0, "200");
    served.status_when(|status| status["objects"][0]["reason"] == "Invalid");
    assert_eq!(served.get("/readyz").0, "503", "settings that cannot be used are not guessed");
    write(&config, "settings.yaml", SETTINGS);
    let status = served.status_when(|status| status["snapshot"] != "");
    assert_eq!(served.get("/readyz").0, "200");
    assert_eq!(status["objects"][0]["accepted"], true);
    write(&config, "bad.yaml", BAD);
    let worse = served.status_when(|status| status["objects"][1]["name"] == "a.test");
    assert_eq!(worse["objects"][1]["accepted"], false);
    assert_eq!(worse["objects"][1]["at"], "bad.yaml:1");
    assert_eq!(worse["snapshot"], status["snapshot"]);
    assert!(socket.exists());
    kill_process(Pid::from_child(&served.child), Signal::TERM).unwrap();
    assert!(served.child.wait().unwrap().success());
    assert!(!socket.exists());
}

#[test]
fn misspelt_settings_are_never_replaced_by_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    std::fs::create_dir(&config).unwrap();
    write(&config, "settings.yaml", &SETTINGS.replace("GatewaySettings", "GatewaySetting"));
    let served = Served::start(&config, &dir.path().join("xds.sock"));
    let refused = |status: &Value| status["objects"][0]["reason"] == "Invalid";
    let told = served.status_when(refused);
    assert!(told["objects"][0]["message"].as_str().unwrap().contains("did you mean GatewaySettings?"), "{told}");
    assert_eq!(served.get("/readyz").0, "503");
    let status = output(&["status", "--address", &served.address]);
    let table = String::from_utf8(status.stdout).unwrap();
    assert!(status.status.code() == Some(1) && table.contains("did you mean GatewaySettings?"), "{table}");
    write(&config, "settings.yaml", SETTINGS);
    let good = served.status_when(|status| status["snapshot"] != "");
    write(&config, "settings.yaml", &SETTINGS.replace("GatewaySettings", "GatewaySetting"));
    let kept = served.status_when(refused);
    assert_eq!(kept["snapshot"], good["snapshot"], "what was accepted last stays in use");
}

#[test]
fn status_can_only_be_read_and_only_under_names_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    std::fs::create_dir(&config).unwrap();
    write(&config, "settings.yaml", SETTINGS);
    write(&config, "bad.yaml", BAD);
    let served = Served::start(&config, &dir.path().join("xds.sock"));
    served.status_when(|status| status["snapshot"] != "" && status["objects"].as_array().unwrap().len() == 2);
    for path in ["/ui/", "/ui/clusters/a.test", "/status"] {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            assert_eq!(served.ask(method, path, "localhost").0, "405", "{method} {path}");
        }
        for (host, code) in [("127.0.0.1:80", "200"), ("[::1]", "200"), ("rebound.example", "421"), ("", "421")] {
            assert_eq!(served.ask("GET", path, host).0, code, "{host} {path}");
        }
        let (_, head, _) = served.ask("GET", path, "localhost");
        for header in ["x-content-type-options: nosniff", "content-security-policy: default-src 'none'", "no-store"] {
            assert!(head.contains(header), "{header}: {head}");
        }
    }
    assert_eq!(served.ask("GET", "/readyz", "any.example").0, "200", "probes ask by any name");
    assert_eq!(served.ask("GET", "/", "localhost").0, "307", "the console is elsewhere");
    let contains = |path: &str, parts: &[&str]| {
        let page = served.get(path).1;
        for part in parts {
            assert!(page.contains(part), "{part}: {page}");
        }
    };
    contains("/ui/", &["a.test", "No gateway has connected", "GatewaySettings"]);
    contains("/ui/clusters/a.test", &["bad.yaml:1", "Invalid", "NotAccepted"]);
}

#[test]
fn clients_that_say_nothing_hold_nobody_up_for_long() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    std::fs::create_dir(&config).unwrap();
    write(&config, "settings.yaml", SETTINGS);
    let served = Served::start(&config, &dir.path().join("xds.sock"));
    let silent: Vec<_> = (0..400).map(|_| TcpStream::connect(&served.address).unwrap()).collect();
    let answered = || {
        let mut stream = TcpStream::connect(&served.address).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).ok()?;
        write!(stream, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    };
    let start = Instant::now();
    while answered().is_none() {
        assert!(start.elapsed() < DEADLINE);
        std::thread::yield_now();
    }
    drop(silent);
}

#[test]
fn status_shows_outcomes_and_exits_accordingly() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    std::fs::create_dir(&config).unwrap();
    write(&config, "settings.yaml", SETTINGS);
    let served = Served::start(&config, &dir.path().join("xds.sock"));
    let status = |more: &[&str]| output(&[&["status", "--address", &served.address], more].concat());
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    served.status_when(|status| status["snapshot"] != "");
    let nothing = status(&[]);
    assert!(nothing.status.success(), "nothing is wrong: {nothing:?}");
    assert!(text(&nothing).contains("No UpstreamCluster"), "{nothing:?}");
    write(&config, "bad.yaml", BAD);
    served.status_when(|status| status["objects"].as_array().unwrap().len() == 2);
    let bad = status(&[]);
    assert_eq!(bad.status.code(), Some(1));
    let told = text(&bad);
    let row: Vec<&str> = told.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..4], ["a.test", "False", "False", "False"], "{told}");
    let one = status(&["a.test"]);
    assert_eq!(one.status.code(), Some(1));
    assert!(text(&one).contains("  Accepted    False    Invalid"), "{}", text(&one));
    let json: Value = serde_json::from_slice(&status(&["-o", "json", "a.test"]).stdout).unwrap();
    assert_eq!(json["conditions"][1]["reason"], "NotAccepted");
    assert_eq!(status(&["b.test"]).status.code(), Some(1), "there is none");
    assert_eq!(status(&["-o", "yaml"]).status.code(), Some(2));
    drop(served);
    assert_eq!(output(&["status", "--address", "127.0.0.1:1"]).status.code(), Some(1));
}

#[test]
fn saved_configuration_that_is_damaged_or_public_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let [config, state, socket] = ["config", "state", "xds.sock"].map(|name| dir.path().join(name));
    let flags = ["serve", "--http-address", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let more =
        ["--xds-socket", socket.to_str().unwrap(), "--state-dir", state.to_str().unwrap(), "--log-format", "json"];
    std::fs::create_dir(&state).unwrap();
    let kept = state.join("last-good");
    for (content, mode, told) in [
        ("portcullis-last-good 3 0123\n{}", 0o600, "is corrupted"),
        ("portcullis-last-good 9 0123\n{}", 0o600, "has a version"),
        ("{}\n", 0o600, "is not a last good configuration"),
        ("portcullis-last-good 3 0123\n{}", 0o644, "may be read or written by others"),
    ] {
        std::fs::write(&kept, content).unwrap();
        std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(mode)).unwrap();
        let ended = output(&[&flags[..], &more[..]].concat());
        assert!(!ended.status.success(), "there is neither a source nor anything kept");
        let log = String::from_utf8(ended.stderr).unwrap();
        let line = log.lines().find(|line| line.contains(told)).unwrap_or_else(|| panic!("{told}: {log}"));
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["level"], line["file"].as_str()), (&Value::from("ERROR"), kept.to_str()));
    }
}

fn documents(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(&text.replace("\n---\n", "\n")).into_iter().map(Result::unwrap).collect()
}

#[test]
fn rbac_follows_the_paths_of_health_checks() {
    let directory = tempfile::tempdir().unwrap();
    let object = |name: &str, path: &str| {
        format!("{}spec: {{portcullis: {{healthCheck: {{path: {path:?}}}}}}}\n", BAD.replace("a.test", name))
    };
    let paths = |arguments: &[&str]| {
        let printed = output(&[&["rbac"], arguments].concat());
        let manifests: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(printed.stdout).unwrap()).unwrap();
        let rules = manifests.into_iter().find_map(|one| one["rules"].as_array().cloned()).unwrap_or_default();
        rules.into_iter().find_map(|rule| rule.get("nonResourceURLs").cloned())
    };
    assert_eq!(paths(&[]), Some(json!(["/readyz"])));
    write(directory.path(), "a.yaml", &object("a.test", "/livez?exclude=etcd"));
    write(directory.path(), "b.yaml", &object("b.test", "/health%2dz"));
    let files = ["-f", directory.path().to_str().unwrap()];
    assert_eq!(paths(&files), Some(json!(["/health-z", "/livez"])));
    write(directory.path(), "c.yaml", &object("c.test", "/%2a"));
    assert_eq!(paths(&files), None, "a rule of RBAC would be wider than the path");
}

#[test]
fn bootstrap_and_rbac_print_what_they_are_asked_for() {
    let printed =
        output(&["bootstrap", "--xds-socket", "/run/x.sock", "--node-id", "n", "--admin-address", "127.0.0.1:1"]);
    let bootstrap = &documents(&String::from_utf8(printed.stdout).unwrap())[0];
    assert_eq!(bootstrap["node"]["id"], "n");
    assert_eq!(bootstrap["dynamic_resources"]["ads_config"]["api_type"], "DELTA_GRPC");
    assert_eq!(bootstrap["admin"]["address"]["socket_address"]["port_value"], 1);
    assert!(bootstrap.to_string().contains(r#"{"pipe":{"path":"/run/x.sock"}}"#));
    let printed = output(&["rbac", "--user", "gate: 'x'\n"]);
    let rbac: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(printed.stdout).unwrap()).unwrap();
    assert_eq!(rbac[0]["kind"], "ClusterRole");
    assert_eq!(rbac[1]["subjects"][0]["name"], "gate: 'x'\n", "whatever the name is, it stays one value");
    let directory = tempfile::tempdir().unwrap();
    let spec = r#"{portcullis: {forwardedExtras: ["example.com/role"], auditAttribution: true}}"#;
    write(directory.path(), "a.yaml", &format!("{BAD}spec: {spec}\n---\n{}", BAD.replace("a.test", "b.test")));
    let more = |arguments: &[&str]| {
        let files = ["rbac", "-f", directory.path().to_str().unwrap()];
        let printed = output(&[&files[..], arguments].concat());
        let text = String::from_utf8(printed.stdout).unwrap();
        (
            printed.status.success(),
            text.contains("userextras/example.com/role"),
            text.contains("userextras/portcullis.dev/"),
        )
    };
    assert_eq!(more(&[]), (true, true, true));
    assert_eq!(more(&["--cluster", "a.test"]), (true, true, true));
    assert_eq!(more(&["--cluster", "b.test"]), (true, false, false), "nothing more than it needs");
    assert!(!more(&["--cluster", "c.test"]).0);
    let verbs: Vec<_> = rbac[0]["rules"].as_array().unwrap().iter().map(|rule| rule["verbs"][0].clone()).collect();
    assert_eq!(verbs, ["impersonate", "impersonate", "create", "create", "get"]);
    let proxy = "{portcullis: {upstreamIdentity: RequestHeader}}";
    write(directory.path(), "c.yaml", &format!("{}spec: {proxy}\n", BAD.replace("a.test", "c.test")));
    let of = |arguments: &[&str]| {
        let files = ["rbac", "-f", directory.path().to_str().unwrap()];
        String::from_utf8(output(&[&files[..], arguments].concat()).stdout).unwrap()
    };
    assert!(!of(&["--cluster", "c.test"]).contains("impersonate"), "an authenticating proxy impersonates nobody");
    assert!(of(&[]).contains("impersonate"), "the others still do");
}

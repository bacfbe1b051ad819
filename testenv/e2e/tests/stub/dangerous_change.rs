//! The commands of "A dangerous change, step by step" in docs/operations.md, as they are written there, on a live gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use portcullis_e2e::{allow_all, default_certificate, documented_commands, settings};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::{deps, ports, wait};
use serde_json::{Value, json};

use crate::access_log::lines_of;
use crate::agent::fixture::{AgentFixture, SOON};
use crate::fixture::{NAME, PODS, ROBOT};

const HEADING: &str = "### A dangerous change, step by step";
const EDITOR: &str = "vi ";

/// An operator in front of a control plane and a gateway with its agent.
struct Operator {
    // Ended before the server.
    agent: Agent,
    plane: ControlPlane,
    address: SocketAddr,
    directory: PathBuf,
    commands: std::vec::IntoIter<String>,
    fixture: AgentFixture,
}

impl Operator {
    fn start() -> Self {
        let fixture = AgentFixture::new("dangerous-change");
        let manifest = fixture.manifest().set("/spec/logging", json!({"mode": "on"}));
        let manifest = manifest.policies(json!([{"rules": [allow_all()]}]));
        let directory = fixture.run.make_dir("operator").unwrap();
        let manifests = fixture.run.make_dir("operator/manifests").unwrap();
        let (address, certificate) =
            (ports::free_address().unwrap(), default_certificate(&fixture.serving_ca).unwrap());
        std::fs::write(manifests.join("settings.yaml"), settings("e2e", address, &certificate)).unwrap();
        std::fs::write(manifests.join(format!("{NAME}.yaml")), manifest.to_text()).unwrap();
        let plane = ControlPlane::start_with(fixture.run.path(), &manifests, &[]).unwrap();
        let mut options = AgentOptions::new([plane.xds_socket()]);
        options.envoy_flags.extend(["--file-flush-interval-msec", "50"].map(str::to_owned));
        let agent = Agent::start(fixture.run.path(), "envoy-0", &options).unwrap();
        agent.wait_ready(SOON).unwrap();
        let commands = documented_commands("docs/operations.md", HEADING).unwrap().into_iter();
        Operator { agent, plane, address, directory, commands, fixture }
    }

    /// Runs the next command of the document, which begins with these words; its output, and how it ended.
    fn next(&mut self, words: &str) -> (String, i32) {
        let command = self.commands.next().unwrap();
        assert!(command.starts_with(words), "{command}");
        self.run(&command)
    }

    fn run(&self, command: &str) -> (String, i32) {
        let program = deps::portcullis().unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", program.parent().unwrap().display());
        let mut shell = Command::new("bash");
        shell.args(["-c", command]).current_dir(&self.directory).env("PATH", path);
        let output = shell.env("PORTCULLIS_HTTP_ADDRESS", self.plane.http_address().to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (text, output.status.code().unwrap())
    }

    fn good(&mut self, words: &str) -> String {
        let (text, status) = self.next(words);
        assert_eq!(status, 0, "{words}: {text}");
        text
    }

    /// Adds the list where the operator would write it in an editor.
    fn edit(&mut self) {
        let command = self.commands.next().unwrap();
        let path = self.directory.join(command.strip_prefix(EDITOR).unwrap());
        let mut object: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let list = json!({"deny": [{"users": ["robot"], "message": "the robot has been stolen"}]});
        object["spec"]["portcullis"]["shadow"]["access"] = list;
        std::fs::write(&path, object.to_string()).unwrap();
    }

    /// The statuses that Alice and the robot get.
    fn ask(&self, agent: &str) -> [u16; 2] {
        let alice = H2Client::connect(&self.fixture.target(self.address)).unwrap();
        let token = format!("Bearer {ROBOT}");
        let nobody = TlsTarget::new(self.address).sni(NAME).trust(&self.fixture.serving_ca);
        let robot = H2Client::connect(&nobody).unwrap();
        let robot = robot.get(PODS, &[("authorization", token.as_str()), ("user-agent", agent)]).unwrap();
        [alice.get(PODS, &[]).unwrap().status, robot.status]
    }

    /// Waits for the gateway to answer so.
    fn wait(&self, expected: [u16; 2]) {
        let answered = || (self.ask("waits") == expected).then_some(());
        wait::until(&format!("the answers are {expected:?}"), SOON, answered).unwrap();
    }

    fn lines(&self) -> Vec<Value> {
        lines_of(self.agent.process())
    }

    /// Waits for the condition `ShadowDiffers`, or for there to be none.
    fn wait_for_condition(&self, status: Option<&str>) {
        let found = |body: &Value| {
            let object = body["objects"].as_array()?.iter().find(|one| one["name"] == NAME)?.clone();
            let found = object["conditions"].as_array()?.iter().find(|one| one["type"] == "ShadowDiffers")?.clone();
            found["status"].as_str().map(str::to_owned)
        };
        let what = format!("ShadowDiffers is {status:?}");
        self.plane.wait_status(&what, SOON * 2, |body| found(body).as_deref() == status).unwrap();
    }

    fn keep_log(&self) {
        let text: Vec<String> = self.lines().iter().map(Value::to_string).collect();
        std::fs::write(self.directory.join("access.log"), text.join("\n")).unwrap();
    }
}

#[test]
fn commands_of_the_document_plan_a_change_and_take_it_back() {
    let mut operator = Operator::start();
    assert_eq!(operator.ask("yesterday"), [200, 200]);
    let logged = || operator.lines().iter().any(|line| line["userAgent"] == "yesterday").then_some(());
    wait::until("the robot's request is in the log", SOON, logged).unwrap();
    operator.keep_log();
    operator.wait_for_condition(None);
    for same in ["diff -f manifests/ --with manifests/", "replay -f manifests/ --log access.log"] {
        let (text, status) = operator.run(&format!("portcullis {same}"));
        assert_eq!(status, 0, "{same}: {text}");
    }

    operator.good("cp -r manifests before");
    operator.edit();
    operator.good("portcullis promote");
    operator.good("portcullis check");
    let (differences, status) = operator.next("portcullis diff");
    assert!(status == 1 && differences.contains("robot"), "{differences}");
    let (replayed, status) = operator.next("portcullis replay");
    assert!(status == 1 && replayed.contains("robot"), "{replayed}");
    assert_eq!(operator.ask("before the shadow"), [200, 200]);

    operator.good("cp shadow/");
    let shown = || {
        operator.ask("in the shadow");
        let would = |one: &&Value| one["userAgent"] == "in the shadow" && one["shadow"] == "would_refuse";
        operator.lines().iter().find(would).cloned()
    };
    let shown = wait::until("a line has what the list would do", SOON, shown).unwrap();
    assert_eq!((&shown["code"], &shown["user"]), (&json!(200), &json!("robot")), "{shown}");
    operator.wait_for_condition(Some("True"));
    let status = operator.good("portcullis status");
    assert!(status.contains("would_refuse LIST pods (policy 0, shadow policy -)"), "{status}");
    let explained = operator.good("portcullis explain");
    assert!(explained.contains("the robot has been stolen"), "{explained}");
    assert_eq!(operator.ask("before the promotion"), [200, 200]);

    operator.good("cp new/");
    operator.wait([200, 403]);
    operator.wait_for_condition(None);
    operator.good("cp before/");
    operator.wait([200, 200]);
    assert_eq!(operator.commands.next(), None, "the document has more commands");
}

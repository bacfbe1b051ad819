//! The commands of "A dangerous change, step by step" in docs/operations.md, as they are written there, on a live gateway.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::{deps, project_root, wait};
use serde_json::{Value, json};

use crate::access_log::{line, lines};
use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const SOON: Duration = Duration::from_secs(20);
/// Code in a list of steps.
const INDENT: &str = "        ";
const EDITOR: &str = "vi ";

/// The commands, in order.
fn commands() -> Vec<String> {
    let text = std::fs::read_to_string(project_root().join("docs/operations.md")).unwrap();
    let (_, section) = text.split_once("### A dangerous change, step by step\n").unwrap();
    let (section, _) = section.split_once("\n### ").unwrap();
    section.lines().filter_map(|line| line.strip_prefix(INDENT)).map(str::to_owned).collect()
}

/// An operator in front of a gateway.
struct Operator {
    fixture: StubFixture,
    directory: PathBuf,
    commands: std::vec::IntoIter<String>,
}

impl Operator {
    fn start() -> Self {
        let fixture = StubFixture::start("dangerous-change", &GatewayOptions::default());
        let manifest = fixture.manifest().set("/spec/logging", json!({"mode": "on"}));
        fixture.gateway.apply(&manifest.policies(json!([{"rules": [allow_all()]}]))).unwrap();
        let directory = fixture.gateway.manifests().parent().unwrap().to_owned();
        Operator { fixture, directory, commands: commands().into_iter() }
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
        let ran = Command::new("bash").args(["-c", command]).current_dir(&self.directory).env("PATH", path).output();
        let output = ran.unwrap();
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
        let target = self.fixture.gateway.target(NAME);
        let alice = H2Client::connect(&target.clone().identity(&self.fixture.pki.alice)).unwrap();
        let token = format!("Bearer {ROBOT}");
        let robot = H2Client::connect(&target).unwrap();
        let robot = robot.get(PODS, &[("authorization", token.as_str()), ("user-agent", agent)]).unwrap();
        [alice.get(PODS, &[]).unwrap().status, robot.status]
    }

    /// Waits for the gateway to answer so.
    fn wait(&self, expected: [u16; 2]) {
        let answered = || (self.ask("waits") == expected).then_some(());
        wait::until(&format!("the answers are {expected:?}"), SOON, answered).unwrap();
    }

    fn keep_log(&self) {
        let text: Vec<String> = lines(&self.fixture).iter().map(Value::to_string).collect();
        std::fs::write(self.directory.join("access.log"), text.join("\n")).unwrap();
    }
}

#[test]
fn commands_of_the_document_plan_a_change_and_take_it_back() {
    let mut operator = Operator::start();
    assert_eq!(operator.ask("yesterday"), [200, 200]);
    line(&operator.fixture, "yesterday");
    operator.keep_log();
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
        lines(&operator.fixture).iter().find(would).cloned()
    };
    let shown = wait::until("a line has what the list would do", SOON, shown).unwrap();
    assert_eq!((&shown["code"], &shown["user"]), (&json!(200), &json!("robot")), "{shown}");
    let explained = operator.good("portcullis explain");
    assert!(explained.contains("the robot has been stolen"), "{explained}");
    assert_eq!(operator.ask("before the promotion"), [200, 200]);

    operator.good("cp new/");
    operator.wait([200, 403]);
    operator.good("cp before/");
    operator.wait([200, 200]);
    assert_eq!(operator.commands.next(), None, "the document has more commands");
}

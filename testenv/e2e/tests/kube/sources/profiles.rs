//! `portcullis freeze` and `portcullis thaw`: by the object's annotation, and by a file while the store of objects is away.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::control_plane::{ControlPlaneUnderTest, SOON, object};
use super::fixture::{SourceFixture, printed};

const NAME: &str = "a.example.com";
/// The only user of the object's own profile.
const OPERATOR: &str = "alice";

/// The second kube-apiserver is behind the gateway, the first one stores the objects.
struct Site {
    side: ControlPlaneUnderTest,
    fixture: SourceFixture,
    kubeconfig: String,
    profiles_file: String,
}

/// An operator of `system:masters`, and another user.
struct Clients {
    target: TlsTarget,
    identities: [Identity; 2],
}

impl Clients {
    /// The statuses of their requests; 0 if there is none.
    fn statuses(&self) -> [u16; 2] {
        let answer = |identity| H2Client::connect(&self.target.clone().identity(identity))?.get("/version", &[]);
        self.identities.each_ref().map(|one| answer(one).map_or(0, |answer| answer.status))
    }
}

impl Site {
    fn start(test: &str) -> Option<Self> {
        let fixture = SourceFixture::of(test, &KubeOptions { apiservers: 2, ..KubeOptions::default() })?;
        fixture.apply(&printed(&["rbac", "--user", "portcullis"]));
        let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
        let mut rule = everything.clone();
        rule["users"] = json!([OPERATOR]);
        let own = json!([{"name": "night", "dispatchPolicies": [{"rules": [rule]}]}]);
        let servers = json!([{"endpoint": format!("https://{}", fixture.kube.address(1).unwrap())}]);
        let manifest = fixture.manifest(NAME).set("/spec/servers", servers);
        fixture.apply(&manifest.set("/spec/portcullis", json!({"profiles": own})).to_text());
        let profiles_file = fixture.run.join("profiles.json").display().to_string();
        let side = fixture.kubernetes_side_with("plane", &["--profiles-file", &profiles_file]);
        side.wait_listening(fixture.address);
        let kubeconfig = fixture.run.join("operator.kubeconfig");
        fixture.kube.kubeconfig().identity(fixture.kube.admin()).write(&kubeconfig).unwrap();
        let site = Site { side, kubeconfig: kubeconfig.display().to_string(), profiles_file, fixture };
        site.wait([200, 200]);
        Some(site)
    }

    fn clients(&self) -> Clients {
        let other = self.fixture.kube.client_ca().issue(&CertSpec::client("bob", [""; 0]));
        let identities = [self.fixture.kube.admin().clone(), other.unwrap()];
        let trusting = TlsTarget::new(self.fixture.address).sni(NAME).trust(&self.fixture.serving_ca);
        Clients { target: trusting.timeout(SOON), identities }
    }

    /// Waits until both clients get these answers.
    fn wait(&self, expected: [u16; 2]) {
        let clients = self.clients();
        let answers = || (clients.statuses() == expected).then_some(());
        wait::until(&format!("the answers are {expected:?}"), SOON, answers).unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(deps::portcullis().unwrap()).args(words).output().unwrap()
    }

    fn in_store(&self, words: &[&str]) -> String {
        self.good(&[words, &["--kubeconfig", &self.kubeconfig]].concat())
    }

    fn by_file(&self, words: &[&str]) -> String {
        self.good(&[words, &["--profiles-file", &self.profiles_file]].concat())
    }

    /// Runs a command that has to end well; its standard output and error.
    fn good(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{words:?}: {text}");
        text
    }
}

#[test]
fn commands_freeze_and_thaw_and_keep_the_spec() {
    let Some(mut site) = Site::start("freeze-commands") else { return };
    let spec = site.fixture.stored(NAME)["spec"].clone();
    let shown = site.in_store(&["freeze", NAME, "--dry-run"]);
    assert!(shown.contains("each is answered 429") && shown.contains("nothing was changed"), "{shown}");
    site.wait([200, 200]);
    site.in_store(&["freeze", NAME]);
    site.wait([429, 429]);
    let warned =
        |status: &Value| object(status, NAME).is_some_and(|one| one.to_string().contains("frozen is in effect"));
    site.side.plane.wait_status("the status names the profile", SOON, warned).unwrap();
    // The control plane dies, the next step is written while it is away, and at no moment does the other user get in.
    let (clients, is_over) = (site.clients(), AtomicBool::new(false));
    let most = Instant::now() + SOON.saturating_mul(10);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) && Instant::now() < most {
                assert_ne!(clients.statuses()[1], 200, "the freeze was lost");
            }
        });
        site.side.plane.process().kill();
        let shown = site.in_store(&["freeze", NAME, "--stage", "heartbeats"]);
        assert!(shown.contains("of group kubeadm:cluster-admins,system:masters"), "{shown}");
        site.wait([429, 429]);
        site.side.plane.restart().unwrap();
        site.side.plane.wait_in_sync(1, SOON).unwrap();
        site.wait([200, 429]);
        is_over.store(true, Ordering::Release);
        asking.join().unwrap();
    });
    let wrong = site.run(&["freeze", NAME, "--stage", "day", "--kubeconfig", &site.kubeconfig]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("is not the name of a profile"));
    site.in_store(&["freeze", NAME, "--stage", "night"]);
    site.wait([403, 403]);
    site.in_store(&["thaw", NAME]);
    site.wait([200, 200]);
    assert!(site.in_store(&["thaw", NAME]).contains("no profile is in effect"));
    assert_eq!(site.fixture.stored(NAME)["spec"], spec);
}

#[test]
fn file_freezes_while_the_store_is_away() {
    let Some(mut site) = Site::start("freeze-file") else { return };
    site.in_store(&["freeze", NAME, "--stage", "heartbeats"]);
    site.wait([200, 429]);
    site.fixture.kube.apiserver(0).unwrap().process().kill();
    site.side.wait_current(false);
    let refused = site.run(&["freeze", NAME, "--kubeconfig", &site.kubeconfig]);
    assert_eq!(refused.status.code(), Some(1));
    site.by_file(&["freeze", NAME]);
    site.wait([429, 429]);
    site.by_file(&["thaw", NAME]);
    site.wait([200, 429]);
    site.by_file(&["thaw", NAME, "--ignore-annotation"]);
    site.wait([200, 200]);
    site.fixture.kube.restart(0).unwrap();
    site.side.wait_current(true);
    site.by_file(&["thaw", NAME]);
    site.wait([200, 429]);
}

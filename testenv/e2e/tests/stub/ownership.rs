//! A user who may write an object must not get another object's clients.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::client::TlsTarget;
use portcullis_harness::wait;
use portcullis_stub_apiserver::StubServer;
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const SOON: Duration = Duration::from_secs(20);
/// Behind the owner's wildcard, and for which host to ask there: of deep names Envoy takes the connections, and the filter no
/// requests. The last one is also behind a narrower wildcard of the thief.
const HOSTS: [(&str, &str); 4] = [
    ("x.a.example.com", "x.a.example.com"),
    ("z.a.example.com", "z.a.example.com"),
    ("y.z.a.example.com", "x.a.example.com"),
    ("deep.w.a.example.com", "x.a.example.com"),
];

/// A cluster that has `*.a.example.com`, and a thief's server. The thief's objects come later, by age as by name.
struct Two {
    fixture: StubFixture,
    thief: StubServer,
}

impl Two {
    fn start(test: &str) -> Self {
        let fixture = StubFixture::without_cluster(test, &GatewayOptions::default());
        let names = json!(["*.a.example.com"]);
        fixture.gateway.apply(&fixture.manifest().set("/spec/secureServing/serverNames", names)).unwrap();
        let thief = fixture.pki.stub("thief");
        Two { fixture, thief }
    }

    /// An object of the thief, which leads to the thief's server.
    fn object(&self, name: &str, server_names: &[&str]) -> Manifest {
        let serving = self.fixture.gateway.serving_identity(name).unwrap();
        let manifest = self.fixture.manifest().set("/metadata/name", json!(name));
        let manifest = manifest.serving(&serving, &self.fixture.pki.client_ca);
        let manifest = manifest.set("/spec/secureServing/serverNames", json!(server_names));
        manifest.set("/spec/servers", json!([{"endpoint": self.thief.url()}]))
    }

    fn wait_reported(&self, name: &str, wanted: (bool, &str)) -> String {
        let told = |status: &Value| {
            let objects = status["objects"].as_array().cloned().unwrap_or_default();
            objects.into_iter().find(|one| one["name"] == name)
        };
        let is_reported = |status: &Value| {
            let is_wanted = |one: Value| one["accepted"] == wanted.0 && one["reason"] == wanted.1;
            told(status).is_some_and(is_wanted) && status["nodes"][0]["inSync"] == true
        };
        let status = self.fixture.gateway.plane().wait_status("the thief is told", SOON, is_reported).unwrap();
        told(&status).unwrap()["message"].as_str().unwrap().to_owned()
    }

    /// The server that answers a client that connects to one name, and asks for a host there with a token.
    fn answers(&self, name: &str, host: &str) -> Option<&'static str> {
        let target = TlsTarget::new(self.fixture.gateway.address()).sni(name);
        self.fixture.stub.clear();
        self.thief.clear();
        let request = format!(
            "GET {PODS} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {ROBOT}\r\nConnection: close\r\n\r\n"
        );
        let answer = target.raw_request(request.as_bytes()).ok()?;
        let came = |stub: &StubServer| !stub.records_for(PODS).is_empty();
        (answer.status == 200).then(|| if came(&self.thief) { "thief" } else { "owner" })
    }

    /// The thief's server has seen nothing of a client: neither a request nor its token in a review.
    fn thief_knows_nothing(&self) {
        assert!(self.thief.records().iter().all(|record| record.path() == "/readyz"), "{:?}", self.thief.records());
    }
}

#[test]
fn token_for_a_name_below_a_wildcard_goes_to_its_owner() {
    let two = Two::start("ownership");
    for (name, host) in HOSTS {
        wait::until("the owner answers", SOON, || (two.answers(name, host) == Some("owner")).then_some(())).unwrap();
    }
    let names = ["x.a.example.com", "*.w.a.example.com", "thief.example.org"];
    two.fixture.gateway.write(&two.object("thief.example.com", &names)).unwrap();
    let message = two.wait_reported("thief.example.com", (true, "Conflicted"));
    assert!(message.contains(&format!("which belongs to the UpstreamCluster {NAME}")), "{message}");
    two.fixture.gateway.write(&two.object("y.z.a.example.com", &[])).unwrap();
    two.wait_reported("y.z.a.example.com", (false, "Conflicted"));
    // One that is invalid closes nothing either.
    let invalid = two.object("z.example.com", &["z.a.example.com"]).set("/spec/servers", json!([]));
    two.fixture.gateway.write(&invalid).unwrap();
    two.wait_reported("z.example.com", (false, "Invalid"));
    for (name, host) in HOSTS {
        // Each of Envoy's workers.
        for _ in 0..8 {
            assert_eq!(two.answers(name, host), Some("owner"), "{name}");
            two.thief_knows_nothing();
        }
    }
    wait::until("what is the thief's own is served", SOON, || {
        (two.answers("thief.example.org", "thief.example.org") == Some("thief")).then_some(())
    })
    .unwrap();
}

#[test]
fn operator_may_allow_names_below_wildcards() {
    let two = Two::start("ownership-allowed");
    two.fixture.gateway.write(&two.object("thief.example.com", &["x.a.example.com"])).unwrap();
    two.wait_reported("thief.example.com", (true, "Conflicted"));
    two.fixture.gateway.change_settings(|spec| spec["wildcardSubdomains"] = json!("Allowed")).unwrap();
    two.wait_reported("thief.example.com", (true, "Accepted"));
    let answers = |name: &str| two.answers(name, name);
    wait::until("the longer name wins", SOON, || (answers("x.a.example.com") == Some("thief")).then_some(())).unwrap();
    assert_eq!(answers("y.a.example.com"), Some("owner"));
}

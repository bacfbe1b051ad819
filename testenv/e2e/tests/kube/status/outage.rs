use portcullis_harness::process::Signal;
use serde_json::Value;

use super::fake_envoy::FakeEnvoy;
use super::{condition, wait_condition};
use crate::sources::{SOON, SourceFixture};

const NAME: &str = "prod.example.com";

/// The status of an outage's time is written when the API is back; meanwhile it is at /status.
#[test]
fn api_that_hangs_delays_the_status_and_nothing_else() {
    let Some(fixture) = SourceFixture::start("status-outage") else { return };
    let side = fixture.kubernetes_side("plane");
    fixture.apply(&fixture.manifest(NAME).to_text());
    wait_condition(&fixture, NAME, "Programmed", "True", "Programmed");
    let apiserver = fixture.kube.apiserver(0).unwrap().process();
    apiserver.signal(Signal::Stop).unwrap();
    let fake_envoy = FakeEnvoy::new(side.plane.xds_socket(), "fake_envoy");
    fake_envoy.refuse("no");
    let refused = |status: &Value| {
        let objects = status["objects"].as_array().cloned().unwrap_or_default();
        objects.iter().any(|object| {
            let conditions = serde_json::json!({"status": {"conditions": object["conditions"]}});
            condition(&conditions, "Programmed")["reason"] == "Refused"
        })
    };
    side.plane.wait_status("the refusal is told", SOON, refused).unwrap();
    side.wait_current(false);
    apiserver.signal(Signal::Cont).unwrap();
    wait_condition(&fixture, NAME, "Programmed", "False", "Refused");
}

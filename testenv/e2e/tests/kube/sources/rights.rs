use portcullis_harness::client::plain;
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::kube::KubeOptions;

use super::control_plane::SOON;
use super::fixture::SourceFixture;

/// Everything else here runs with exactly the rights that are printed; here they are missing at first.
#[test]
fn missing_rights_are_told_and_act_without_a_restart() {
    let Some(fixture) = SourceFixture::without_rights("rights", &KubeOptions::default()) else { return };
    fixture.apply(&fixture.manifest("a.example.com").to_text());
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let dir = fixture.run.make_dir("plane").unwrap();
    let plane = ControlPlane::start_from(&dir, &flags.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let told = |status: &serde_json::Value| {
        status["source"]["reason"].as_str().is_some_and(|reason| reason.contains("forbidden"))
    };
    let status = plane.wait_status("the missing right is told", SOON, told).unwrap();
    assert!(!status["source"]["staleSince"].is_null(), "{status}");
    assert_eq!((&status["source"]["kind"], &status["source"]["leader"]), (&"kubernetes".into(), &false.into()));
    assert_eq!(plain::get(plane.http_address(), "/readyz").unwrap().status, 503);
    fixture.grant();
    let served = |status: &serde_json::Value| {
        status["source"]["staleSince"].is_null()
            && status["source"]["leader"] == true
            && status["objects"].to_string().contains("a.example.com")
    };
    plane.wait_status("the right acts", SOON, served).unwrap();
    assert_eq!(plain::get(plane.http_address(), "/readyz").unwrap().status, 200);
}

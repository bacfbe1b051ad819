use std::time::{Duration, Instant};

use portcullis_harness::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::control_plane::object;
use super::fixture::SourceFixture;

const MANY: usize = 1000;
const LONG: Duration = Duration::from_secs(240);

/// More than a page of the list, and one edit among them.
#[test]
#[ignore = "a thousand objects are created one by one"]
fn thousand_objects_are_listed_whole() {
    let Some(fixture) = SourceFixture::start("thousand-objects") else { return };
    let object_of = |number: usize| -> Value {
        let manifest = fixture.manifest("name").set("/metadata/name", json!(format!("c{number}.example.com")));
        serde_json::from_str(&manifest.to_text()).unwrap()
    };
    let items: Vec<Value> = (0..MANY).map(object_of).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let file = fixture.run.write("many.json", list).unwrap();
    fixture.kubectl(&["create", "-f", file.to_str().unwrap(), "-o", "name"]).timeout(LONG).run_ok().unwrap();
    let start = Instant::now();
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let plane =
        ControlPlane::start_from(fixture.run.path(), &flags.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let count = |status: &Value| {
        let objects = status["objects"].as_array().into_iter().flatten();
        objects.filter(|one| one["kind"] == "UpstreamCluster").count()
    };
    let status = plane.wait_status("objects are served", LONG, |status| count(status) > 0).unwrap();
    assert_eq!(count(&status), MANY, "the first set is whole");
    eprintln!("from the start to the first set: {:?}", start.elapsed());
    let edited = fixture.manifest("c7.example.com").policies(json!([{"rules": [{}], "flowControlSchemaName": "none"}]));
    let start = Instant::now();
    fixture.apply(&edited.to_text());
    let told = |status: &Value| object(status, "c7.example.com").is_some_and(|told| told["accepted"] == false);
    plane.wait_status("the edit is told", LONG, told).unwrap();
    eprintln!("from kubectl to the status: {:?}", start.elapsed());
}

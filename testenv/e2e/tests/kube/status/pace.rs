use std::time::{Duration, Instant, SystemTime};

use portcullis_e2e::allow_all;
use portcullis_harness::control_plane::ControlPlane;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{condition, wait_condition};
use crate::sources::{ControlPlaneUnderTest, SOON, SourceFixture};

const NAME: &str = "prod.example.com";
/// How long the object is changed without a pause.
const FLAPPING: Duration = Duration::from_secs(8);
/// How long nothing changes.
const QUIET: Duration = Duration::from_secs(4);

/// Every write of the object's status, by the server's own record: who and when it arrived.
fn writes(fixture: &SourceFixture) -> Vec<String> {
    let path = format!("/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters/{NAME}/status");
    let events = fixture.kube.apiservers()[0].audit_events_for(&path).unwrap();
    let ours = events.iter().filter(|event| event["user"]["username"] == "control-plane");
    ours.map(|event| event["requestReceivedTimestamp"].as_str().unwrap().to_owned()).collect()
}

/// How many of them arrived after a moment. They are not counted before and after it: an event reaches the log later
/// than its write reaches a reader.
fn writes_since(fixture: &SourceFixture, moment: SystemTime) -> usize {
    let moment = i128::try_from(moment.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos()).unwrap();
    let nanoseconds = |text: &String| OffsetDateTime::parse(text, &Rfc3339).unwrap().unix_timestamp_nanos();
    writes(fixture).iter().filter(|text| nanoseconds(text) >= moment).count()
}

/// Seconds within the hour.
fn seconds(time: &str) -> f64 {
    let (minutes, seconds) = time[14..].trim_end_matches('Z').split_once(':').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
}

/// Sees that a part of the object stays as it was, for as long as nothing changes.
fn stays(fixture: &SourceFixture, part: &str, before: &Value) {
    let quiet = Instant::now();
    let over = || {
        assert_eq!(fixture.stored(NAME).pointer(part), before.pointer(part), "{part}");
        (quiet.elapsed() >= QUIET).then_some(())
    };
    portcullis_harness::wait::until("the quiet is over", QUIET + SOON, over).unwrap();
}

#[test]
fn flapping_object_is_written_once_a_second() {
    let Some(fixture) = SourceFixture::start("status-pace") else { return };
    let _side = fixture.kubernetes_side("plane");
    fixture.apply(&fixture.manifest(NAME).to_text());
    wait_condition(&fixture, NAME, "Programmed", "True", "Programmed");
    let good = fixture.manifest(NAME).to_text();
    let bad =
        fixture.manifest(NAME).policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "none"}])).to_text();
    let start = Instant::now();
    let mut edits = 0;
    let flapping = || {
        fixture.apply(if edits % 2 == 0 { &bad } else { &good });
        edits += 1;
        // However long kubectl takes for an edit.
        (start.elapsed() >= FLAPPING && edits > 8 && writes(&fixture).len() >= 4).then_some(())
    };
    portcullis_harness::wait::until("it is written now and then", FLAPPING + SOON, flapping).unwrap();
    fixture.apply(&good);
    let settled = wait_condition(&fixture, NAME, "Programmed", "True", "Programmed");
    let times: Vec<f64> = writes(&fixture).iter().map(|time| seconds(time)).collect();
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).rem_euclid(3_600.0)).collect();
    // By the server's clock: the pause begins when a write has ended.
    assert!(gaps.iter().all(|gap| *gap >= 1.0), "{gaps:?}");

    // Nothing changes, so nothing is written.
    let quiet = SystemTime::now();
    stays(&fixture, "/metadata/resourceVersion", &settled);
    assert_eq!(writes_since(&fixture, quiet), 0);
    strangers_keep_their_fields(&fixture);
}

fn strangers_keep_their_fields(fixture: &SourceFixture) {
    let theirs = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": NAME},
        "status": {
            "conditions": [{
                "type": "example.com/Audited", "status": "True", "reason": "Seen", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "theirs": {"field": 1},
        },
    });
    let file = fixture.run.write("theirs.json", theirs.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let apply = ["apply", "--server-side", "--subresource=status", "--field-manager=auditor", "-f", file];
    fixture.kubectl(&apply).run_ok().unwrap();
    // An edit that leads to a write.
    let closed = json!({"proxy.kubegateway.io/feature-gates": "DenyAllRequests=true"});
    fixture.apply(
        &fixture
            .manifest(NAME)
            .set("/metadata/annotations", closed)
            .set("/spec/portcullis", json!({"requestTimeout": "30s"}))
            .to_text(),
    );
    let object = wait_condition(fixture, NAME, "Programmed", "True", "Programmed");
    assert_eq!(condition(&object, "example.com/Audited")["reason"], "Seen");
    assert_eq!(object["status"]["theirs"]["field"], 1);
    let managers = fixture.kubectl(&["get", "upstreamcluster", NAME, "--show-managed-fields"]).json().unwrap();
    let of = |name: &str| {
        let listed = managers["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        listed.into_iter().find(|one| one["manager"] == name).unwrap_or_default()
    };
    let is_ours = |one: &Value| one["operation"] == "Apply" && one["subresource"] == "status";
    assert!(is_ours(&of("portcullis")) && is_ours(&of("auditor")), "{managers:#}");
    // A field of ours that another writer changed is restored.
    let forged = json!({"status": {"contentHash": "forged"}});
    let patch = ["patch", "uc", NAME, "--subresource=status", "--type=merge", "-p", &forged.to_string()];
    fixture.kubectl(&patch).run_ok().unwrap();
    portcullis_harness::wait::until("the forged hash is mended", SOON, || {
        (fixture.stored(NAME)["status"]["contentHash"] != "forged").then_some(())
    })
    .unwrap();
}

/// A new leader goes on where the one before stopped: no time moves, and nothing is written for its own sake.
#[test]
fn control_plane_that_restarts_moves_no_time() {
    let Some(fixture) = SourceFixture::start("status-restart") else { return };
    let mut side: ControlPlaneUnderTest = fixture.kubernetes_side("plane");
    fixture.apply(&fixture.manifest(NAME).to_text());
    let before = wait_condition(&fixture, NAME, "Programmed", "True", "Programmed");
    let restart = SystemTime::now();
    side.plane.restart().unwrap();
    side.plane.wait_in_sync(1, SOON).unwrap();
    let leads = |status: &Value| status["source"]["leader"] == true;
    side.plane.wait_status("it leads", SOON, leads).unwrap();
    stays(&fixture, "/status/conditions", &before);
    assert_eq!(writes_since(&fixture, restart), 0);
    let status = side.plane.status().unwrap();
    let told = status["objects"].as_array().unwrap().iter().find(|one| one["name"] == NAME).unwrap().clone();
    assert_eq!(told["conditions"], before["status"]["conditions"]);
    who_does_not_lead_writes_nothing(&fixture, &before);
}

/// It knows no gateway, and would say so.
fn who_does_not_lead_writes_nothing(fixture: &SourceFixture, before: &Value) {
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let follower = ControlPlane::start_from(&fixture.run.make_dir("follower").unwrap(), &flags).unwrap();
    let follows = |status: &Value| {
        let object = status["objects"].as_array().unwrap().iter().find(|one| one["name"] == NAME).cloned();
        let accepted = object.map(|object| object["conditions"][0].clone());
        status["source"]["leader"] == false && accepted.as_ref() == Some(&condition(before, "Accepted"))
    };
    follower.wait_status("it follows, with the leader's times", SOON, follows).unwrap();
    stays(fixture, "/metadata/resourceVersion", before);
}

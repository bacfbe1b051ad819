//! Every disturbance of the source of objects, under load: no client notices.

use std::fs;
use std::time::Duration;

use portcullis_harness::client::{ClientPool, OpenLoopLoad, Watches};
use serde_json::{Value, json};

use super::changes::other;
use super::failures::more;
use super::site::Site;
use crate::fixture::{NAME, PODS};

const SOON: Duration = Duration::from_secs(20);
const WATCHED: &str = "/api/v1/namespaces/default/secrets?watch=true";
const PER_SECOND: f64 = 50.0;

/// Requests and watches that go on.
struct Traffic {
    load: OpenLoopLoad,
    watches: Watches,
}

impl Traffic {
    fn goes_on(&self, after: &str) {
        let some = more(&self.load, PER_SECOND as u64);
        assert_eq!((some.failed, self.watches.ended().len()), (0, 0), "{after}: {some}\n{:#?}", self.watches.ended());
    }
}

/// Waits until an object or file is listed as accepted or as refused, or is not listed at all.
fn wait_reported(site: &Site, name: &str, accepted: Option<bool>) {
    let holds = |status: &Value| {
        let objects = status["objects"].as_array().cloned().unwrap_or_default();
        let told = objects.iter().find(|one| one["name"] == name);
        told.map(|one| one["accepted"] == true) == accepted
    };
    site.gateway.plane().wait_status(&format!("{name} is told as {accepted:?}"), SOON, holds).unwrap();
}

type Fault = (&'static str, fn(&mut Site));

const FAULTS: &[Fault] = &[
    ("garbage beside it", |site| {
        site.gateway.write_file("junk.yaml", "a: [b: }\n").unwrap();
        wait_reported(site, "junk.yaml", Some(false));
    }),
    ("the garbage is gone", |site| {
        fs::remove_file(site.gateway.manifests().join("junk.yaml")).unwrap();
        wait_reported(site, "junk.yaml", None);
    }),
    ("garbage in its place", |site| {
        site.gateway.write_file(&format!("{NAME}.yaml"), "\u{1}{").unwrap();
        wait_reported(site, &format!("{NAME}.yaml"), Some(false));
    }),
    ("itself again", |site| {
        site.gateway.write(&site.manifest).unwrap();
        wait_reported(site, &format!("{NAME}.yaml"), None);
    }),
    ("somebody claims its name", |site| {
        let claim = other(site).set("/spec/secureServing/serverNames", json!([NAME]));
        site.gateway.and_wait(|| site.gateway.write(&claim)).unwrap();
    }),
    ("whoever claimed it is gone", |site| {
        site.gateway.and_wait(|| site.gateway.remove("other.example.org")).unwrap();
    }),
    ("no directory", |site| {
        let manifests = site.gateway.manifests();
        fs::rename(manifests, manifests.with_extension("away")).unwrap();
        wait_reported(site, ".", Some(false));
    }),
    ("the directory is back", |site| {
        let manifests = site.gateway.manifests();
        fs::rename(manifests.with_extension("away"), manifests).unwrap();
        wait_reported(site, ".", None);
    }),
    ("the control plane is killed", |site| site.gateway.plane().process().kill()),
    ("the control plane is back", |site| site.gateway.restart_control_plane().unwrap()),
    ("an edit", |site| site.change("/spec/portcullis/requestTimeout", json!("61s"))),
];

#[test]
fn faults_of_the_source_fail_no_request_and_end_no_watch() {
    let mut site = Site::start("source-under-load");
    let crowd = ClientPool::new(2).unwrap();
    let lanes: Vec<_> = site.lanes().into_iter().map(|lane| (lane, 5)).collect();
    let watches = crowd.watches(&lanes, WATCHED).unwrap();
    let load = crowd.steady(&site.lanes(), &[PODS, "/version"], PER_SECOND).unwrap();
    let traffic = Traffic { load, watches };
    for (name, make) in FAULTS {
        make(&mut site);
        traffic.goes_on(name);
    }
    let outcome = traffic.load.stop().unwrap();
    assert_eq!((outcome.failed, traffic.watches.ended().len()), (0, 0), "{outcome}");
}

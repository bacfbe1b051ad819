use std::fs;
use std::path::PathBuf;

use portcullis_e2e::Manifest;
use portcullis_harness::{wait, write_private};
use serde_json::{Value, json};

use super::control_plane::{ControlPlaneUnderTest, SOON, object, snapshot_of, text, wait_same};
use super::fixture::SourceFixture;

/// Both sources, fed with the same.
struct SourcePair {
    fixture: SourceFixture,
    directory: ControlPlaneUnderTest,
    kubernetes: ControlPlaneUnderTest,
    manifests: PathBuf,
}

impl SourcePair {
    fn start(test: &str) -> Option<Self> {
        let fixture = SourceFixture::start(test)?;
        let manifests = fixture.run.make_dir("manifests").unwrap();
        fs::copy(&fixture.settings, manifests.join("settings.yaml")).unwrap();
        let directory = ControlPlaneUnderTest::start(&fixture.run, "directory", &["--config", text(&manifests)]);
        let kubernetes = fixture.kubernetes_side("kubernetes");
        Some(SourcePair { fixture, directory, kubernetes, manifests })
    }

    fn sides(&self) -> [&ControlPlaneUnderTest; 2] {
        [&self.directory, &self.kubernetes]
    }

    /// Gives both a manifest. The file says what else the server says, because a recreated object is another one.
    fn apply(&self, manifest: &Manifest) {
        let made = self.fixture.apply(&manifest.to_text());
        let manifest = manifest
            .clone()
            .set("/metadata/uid", made["metadata"]["uid"].clone())
            .set("/metadata/creationTimestamp", made["metadata"]["creationTimestamp"].clone())
            .set("/metadata/generation", made["metadata"]["generation"].clone());
        self.write(&format!("{}.yaml", manifest.name()), &manifest.to_text());
    }

    fn write(&self, name: &str, text: &str) {
        write_private(&self.manifests.join(name), text.as_bytes()).unwrap();
    }

    fn remove(&self, name: &str) {
        self.fixture.admin(&["delete", "upstreamcluster", name]);
        fs::remove_file(self.manifests.join(format!("{name}.yaml"))).unwrap();
    }

    /// After a change that acts: both serve the same, and not what they served before.
    fn same_and_new(&self, before: &str) -> String {
        let changed = |status: &Value| snapshot_of(status) != before;
        for side in self.sides() {
            side.plane.wait_status("the change acts", SOON, changed).unwrap();
        }
        let snapshot = wait_same(self.sides());
        assert_eq!(self.directory.configuration(), self.kubernetes.configuration());
        self.wait_same_reported();
        snapshot
    }

    /// Both say the same of every object.
    fn wait_same_reported(&self) {
        wait::until_ok("both sources serve the same", SOON, || {
            let [one, other] = self.sides().map(reported);
            if one == other { Ok(()) } else { Err(format!("{one:#?}\n{other:#?}")) }
        })
        .unwrap();
    }

    fn wait_reported(&self, name: &str, accepted: Option<bool>) {
        for side in self.sides() {
            let holds = |status: &Value| {
                object(status, name).map(|told| told["accepted"].as_bool()).unwrap_or_default() == accepted
            };
            side.plane.wait_status("the object is told", SOON, holds).unwrap();
        }
    }
}

/// The status of the clusters, without the line of the file and the transition times.
fn reported(side: &ControlPlaneUnderTest) -> Vec<Value> {
    let status = side.plane.status().unwrap();
    let objects = status["objects"].as_array().unwrap();
    let mut told: Vec<Value> = objects.iter().filter(|one| one["kind"] == "UpstreamCluster").cloned().collect();
    for one in &mut told {
        one.as_object_mut().unwrap().remove("at");
        for condition in one["conditions"].as_array_mut().into_iter().flatten() {
            condition.as_object_mut().unwrap().remove("lastTransitionTime");
        }
    }
    told.sort_by_key(ToString::to_string);
    told
}

#[test]
fn both_sources_lead_to_the_same() {
    let Some(mut sources) = SourcePair::start("conformance") else { return };
    let mut snapshot = wait_same(sources.sides());
    snapshot = an_object_comes_and_changes(&sources, &snapshot);
    snapshot = a_wrong_edit_changes_nothing(&sources, &snapshot);
    // Before anything is removed: farewells to what is gone are forgotten by a restart.
    a_restart_changes_nothing(&mut sources, &snapshot);
    snapshot = a_name_that_is_taken_stays(&sources, &snapshot);
    snapshot = many_come_at_once(&sources, &snapshot);
    an_object_goes_and_another_of_its_name_comes(&sources, &snapshot);
}

fn an_object_comes_and_changes(sources: &SourcePair, before: &str) -> String {
    let manifest = sources.fixture.manifest("a.example.com");
    sources.apply(&manifest);
    let added = sources.same_and_new(before);
    sources.wait_reported("a.example.com", Some(true));
    sources.apply(
        &manifest.set("/spec/portcullis", json!({"requestTimeout": "20s", "extraAuthorities": ["x.example.com"]})),
    );
    sources.same_and_new(&added)
}

/// An edit that the CRD refuses never arrives; the check refuses what the CRD cannot judge.
fn a_wrong_edit_changes_nothing(sources: &SourcePair, before: &str) -> String {
    let bad = sources.fixture.manifest("a.example.com").set("/spec/clientConfig/keyData", json!("bm90aGluZw=="));
    sources.apply(&bad);
    sources.wait_reported("a.example.com", Some(false));
    assert_eq!(wait_same(sources.sides()), before);
    let status = sources.kubernetes.plane.status().unwrap();
    let message = object(&status, "a.example.com").unwrap()["message"].to_string();
    assert!(message.contains("accepted last is still served") && message.contains("spec.clientConfig"), "{message}");
    sources.wait_same_reported();
    sources.apply(
        &bad.set("/spec/clientConfig/keyData", json!("bm90aGluZw==")).set("/metadata/name", json!("bad.example.com")),
    );
    sources.wait_reported("bad.example.com", Some(false));
    sources.apply(&sources.fixture.manifest("a.example.com"));
    sources.same_and_new(before)
}

fn a_name_that_is_taken_stays(sources: &SourcePair, before: &str) -> String {
    let names = json!(["a.example.com"]);
    sources.apply(&sources.fixture.manifest("thief.example.com").set("/spec/secureServing/serverNames", names));
    let added = sources.same_and_new(before);
    sources.wait_reported("thief.example.com", Some(true));
    let status = sources.kubernetes.plane.status().unwrap();
    let thief = object(&status, "thief.example.com").unwrap();
    assert!(thief["reason"] == "Conflicted" && thief["message"].to_string().contains("UpstreamCluster a.example.com"));
    sources.wait_same_reported();
    sources.remove("thief.example.com");
    sources.wait_reported("thief.example.com", None);
    sources.same_and_new(&added)
}

/// One `kubectl apply` of many, and the file that `kubectl get -o yaml` makes of them.
fn many_come_at_once(sources: &SourcePair, before: &str) -> String {
    let many: Vec<Value> = (0..40)
        .map(|number| sources.fixture.manifest(&format!("many-{number}.example.com")).to_text())
        .map(|text| serde_json::from_str(&text).unwrap())
        .collect();
    sources.fixture.apply(&json!({"apiVersion": "v1", "kind": "List", "items": many}).to_string());
    let raw = "/apis/proxy.kubegateway.io/v1alpha1/upstreamclusters";
    let mut list: Value = serde_json::from_str(&sources.fixture.admin(&["get", "--raw", raw])).unwrap();
    assert_eq!(list["kind"], "UpstreamClusterList");
    let is_many = |one: &Value| one["metadata"]["name"].as_str().unwrap().starts_with("many-");
    list["items"].as_array_mut().unwrap().retain(is_many);
    sources.write("many.json", &list.to_string());
    let added = sources.same_and_new(before);
    assert_eq!(reported(&sources.kubernetes).len(), 42);
    let one = sources.fixture.admin(&["get", "upstreamcluster", "many-0.example.com", "-o", "yaml"]);
    sources.write("many.json", &one);
    fs::rename(sources.manifests.join("many.json"), sources.manifests.join("many-0.example.com.yaml")).unwrap();
    let names: Vec<String> = (1..40).map(|number| format!("many-{number}.example.com")).collect();
    let mut delete = vec!["delete", "upstreamcluster", "--wait=false"];
    delete.extend(names.iter().map(String::as_str));
    sources.fixture.admin(&delete);
    sources.wait_reported("many-39.example.com", None);
    sources.same_and_new(&added)
}

fn an_object_goes_and_another_of_its_name_comes(sources: &SourcePair, before: &str) {
    sources.remove("many-0.example.com");
    sources.wait_reported("many-0.example.com", None);
    let without = sources.same_and_new(before);
    assert_ne!(without, before);
    sources.apply(&sources.fixture.manifest("many-0.example.com"));
    sources.same_and_new(&without);
}

fn a_restart_changes_nothing(sources: &mut SourcePair, before: &str) {
    for side in [&mut sources.directory, &mut sources.kubernetes] {
        side.plane.restart().unwrap();
        side.plane.wait_in_sync(1, SOON).unwrap();
    }
    assert_eq!(wait_same(sources.sides()), before);
    for side in sources.sides() {
        let removed = side.envoy.admin().stat("listener_manager.listener_removed").unwrap();
        assert_eq!(removed, 0);
    }
}
